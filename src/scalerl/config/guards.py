"""When a run is in trouble, and what is done about it.

Part of `ScaleConfig`; read by `scalerl.pipeline.guards` and the session. Not part of a run's identity: they may change
when a run goes on.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from scalerl.config.base import Count, Fraction, Frozen, Share


class Guards(Frozen):
    """Alarms, and steps that are skipped."""

    on_alarm: Literal["log", "stop", "roll_back"] = "log"
    """log: say it and go on. stop: save and end the run. roll_back: go on from the last checkpoint before the trouble,
    with a lower learning rate."""
    truncation: Share = 0.1
    """Alarm `truncation`: more than this share of the rollouts is cut off. The paper saw runs with 10 to 15 % become
    unstable and not recover."""
    ratio: Annotated[float, Field(gt=1)] = 2.0
    """Alarm `ratio`: the mean importance ratio of the tokens in the loss, which should be 1, is above this or below its
    inverse."""
    collapse: Fraction = 0.3
    """Alarm `collapse`: the held-out pass rate has lost this share of its best, and more than noise explains."""
    window: Count = 5
    """Steps over which truncation and ratio are averaged: one strange batch is no alarm."""
    rollbacks: Count = 3
    """After so many the next alarm stops the run."""
    rollback_rate: Share = 0.5
    """Each one multiplies the learning rate with this: the same steps would end the same way."""
    skipped_in_a_row: Count = 5
    """A step whose loss or gradient is not finite changes nothing and is skipped; so many in a row stop the run."""
    unjudged_in_a_row: Count = 2
    """A held-out evaluation of which no answer could be judged is missing from the curve; so many in a row stop the
    run."""
