"""The run directory: the only memory of a run, and what can be derived from it.

    from scalerl.runs import RunDirectory, list_runs
    with RunDirectory.hold("runs/first", config) as run:
        run.metrics.append({"step": 1, ...})

Written by the pipeline, read by anybody at any time. No torch here.
"""

from scalerl.runs.directory import RunDirectory, identity, read_sessions
from scalerl.runs.status import RunSummary, State, list_runs, summarise
from scalerl.runs.store import Records

__all__ = ["Records", "RunDirectory", "RunSummary", "State", "identity", "list_runs", "read_sessions", "summarise"]
