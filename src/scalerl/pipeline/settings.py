"""What an engine needs to know, taken from a run's config and its dialogue.

Called where generators are put together, for training and for evaluation.
"""

from __future__ import annotations

from scalerl.config import InterruptionWindow, RunConfig
from scalerl.pipeline.types import EngineSettings
from scalerl.policy.chat import Dialogue


def engine_settings(run: RunConfig, dialogue: Dialogue, *, temperature: float, fp32: bool) -> EngineSettings:
    """`temperature` and `fp32` differ between training and evaluation, or between experiments."""
    limits, tokens = run.length, run.scale.tokens
    return EngineSettings(
        rows=run.scale.generator.rows,
        max_response=tokens.response,
        max_prompt=tokens.prompt,
        eos_id=dialogue.end_of_response,
        end_thinking=dialogue.end_thinking,
        phrase_ids=dialogue.phrase_ids(limits.phrase) if isinstance(limits, InterruptionWindow) else (),
        temperature=temperature,
        fp32_head=fp32,
    )
