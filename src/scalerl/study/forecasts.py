"""Where each cell of a study is heading: its value at the full budget, forecast from what it has shown so far.

Called by the status when it is asked to, because a fit takes a moment. Reads the folder through the runner, writes
nothing; jobs that have nothing to read yet, or failed, are left out.
"""

from __future__ import annotations

import numpy as np

from scalerl.curves.results import Estimate
from scalerl.errors import InputError
from scalerl.study.folder import StudyFolder
from scalerl.study.heading import final_draws
from scalerl.study.rungs import bounds_of, curves_of, every_job, used_share
from scalerl.study.runner import Runner


def forecasts(folder: StudyFolder, runner: Runner) -> dict[str, Estimate]:
    """Cell -> value at its full budget, with the study's level; cells with too few evaluations are not there."""
    jobs = [job for job in every_job(folder) if used_share(folder, runner, job) > 0]
    readable = []
    for job in jobs:
        outcome = folder.outcome(job)
        if outcome is None or outcome.state != "failed":
            try:
                runner.curve(job, folder.job_path(job))
            except InputError:  # no evaluation yet
                continue
            readable.append(job)
    curves, full = curves_of(folder, runner, readable)
    tail = (1 - folder.config.fit.level) / 2
    found = {}
    for cell, draws in final_draws(curves, full, bounds=bounds_of(folder)).items():
        low, middle, high = np.quantile(draws, (tail, 0.5, 1 - tail))
        found[cell] = Estimate(float(middle), float(low), float(high))
    return found
