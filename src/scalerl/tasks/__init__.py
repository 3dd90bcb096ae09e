"""Tasks: problems in two disjoint pools, and verifiers. No torch here.

    from scalerl.tasks import build_task
    task = build_task({"kind": "chained_sums", "numbers": 4})
    problem = task.problems("train")[0]
    task.verify(problem, f"<think>...</think>{problem.answer}").status

`problem` has the protocols, `build` the list of kinds; one file for each kind.
"""

from scalerl.tasks.build import KINDS, build_task, traced
from scalerl.tasks.chained_sums import ChainedSums
from scalerl.tasks.characters import END_THINK, PRINTABLE_CHARACTERS, TASK_CHARACTERS, THINK
from scalerl.tasks.countdown import Countdown
from scalerl.tasks.files import FileTask, canonical
from scalerl.tasks.generated import GeneratedTask
from scalerl.tasks.gym import GymTask
from scalerl.tasks.mixture import MixtureTask, listed, part_names, part_of
from scalerl.tasks.problem import SPLITS, Problem, Problems, Split, Task, TracedTask, verify_all
from scalerl.tasks.seeds import seeded
from scalerl.tasks.stream import ProblemStream
from scalerl.verify import STATUSES, Status, Verdict

__all__ = [
    "END_THINK",
    "KINDS",
    "PRINTABLE_CHARACTERS",
    "SPLITS",
    "STATUSES",
    "TASK_CHARACTERS",
    "THINK",
    "ChainedSums",
    "Countdown",
    "FileTask",
    "GeneratedTask",
    "GymTask",
    "MixtureTask",
    "Problem",
    "ProblemStream",
    "Problems",
    "Split",
    "Status",
    "Task",
    "TracedTask",
    "Verdict",
    "build_task",
    "canonical",
    "listed",
    "part_names",
    "part_of",
    "seeded",
    "traced",
    "verify_all",
]
