"""Take over from other studies what they have run already: several studies often have the same base.

Called before a study runs. A job is the same when its identity and its settings (budget included) are: its folder is
then copied, as if the job had run here. Nothing is taken from a job that has not finished.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from scalerl.errors import StorageError
from scalerl.folder import complete_folder
from scalerl.runs.store import plain
from scalerl.study.folder import JOB, LOCK, StudyFolder, job_text
from scalerl.study.jobs import Job


def reuse(folder: StudyFolder, others: Iterable[StudyFolder]) -> list[str]:
    """Copy finished jobs that this study would run too; one line for each. The caller holds the folder."""
    lines = []
    for other in others:
        if other.config.runner != folder.config.runner:
            continue  # a command's budget is the runner's, not the job's
        finished = {job.identity: job for job in other.plan.jobs if _finished(other, job)}
        for job in folder.plan.jobs:
            known = finished.get(job.identity)
            if known is None or folder.started(job) or plain(known.settings) != plain(job.settings):
                continue
            _copy(other.job_path(known), folder, job)
            lines.append(f"{job.name} taken over from {other.path}")
    return lines


def _finished(folder: StudyFolder, job: Job) -> bool:
    outcome = folder.outcome(job)
    return outcome is not None and outcome.state == "finished"


def _copy(source: Path, folder: StudyFolder, job: Job) -> None:
    """Under a name of its own until it is whole."""
    target = folder.job_path(job)
    try:
        target.parent.mkdir(exist_ok=True)
        with complete_folder(target) as partial:
            shutil.copytree(source, partial, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK, JOB))
            (partial / JOB).write_text(job_text(job))
    except (OSError, shutil.Error) as error:
        raise StorageError.of(error, target) from None
