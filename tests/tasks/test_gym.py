"""reasoning-gym: its datasets as tasks, and a scorer that may crash, hang or misbehave without harm."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scalerl.errors import InputError, MissingDependencyError
from scalerl.tasks import GymTask, Verdict, build_task
from scalerl.tasks.gym_worker import answer as gym_answer
from scalerl.verify.guarded import answered as guarded_answer

pytest.importorskip("reasoning_gym")

Ask = Callable[[str], Verdict]


@pytest.fixture(scope="module")
def sums() -> Iterator[GymTask]:
    options = {"max_terms": 3, "max_digits": 2}
    task = GymTask(dataset="chain_sum", options=options, train_problems=40, held_out_problems=5)
    yield task
    task.close()


@pytest.fixture(scope="module")
def spirals() -> Iterator[GymTask]:
    """A dataset whose scorer calls `eval` on the answer, and gives 0.1 for the right numbers as a Python list."""
    task = GymTask(dataset="spiral_matrix", threshold=0.1, timeout_s=2.0, train_problems=2, held_out_problems=1)
    yield task
    task.close()


@pytest.fixture
def ask(spirals: GymTask, judge: Any) -> Ask:
    answer: Ask = judge(spirals, spirals.problems("train")[0])
    return answer


def test_pools(sums: GymTask) -> None:
    train, held_out = sums.problems("train")[0:], sums.problems("held_out")[0:]
    assert (len(train), len(held_out)) == (40, 5)
    assert len({problem.prompt for problem in train + held_out}) == 45
    assert all("arithmetic problem" in problem.prompt for problem in train)
    assert sums.problems("train")[3].index == 3


def test_another_seed_draws_other_problems_and_holds_out_the_same(sums: GymTask) -> None:
    other = build_task({**sums.settings, "seed": 1})
    assert other.problems("train")[0:] != sums.problems("train")[0:]
    held_out = {problem.prompt for problem in sums.problems("held_out")[0:]}
    assert not held_out & {problem.prompt for problem in other.problems("train")[0:]}


def test_its_own_options_count(sums: GymTask) -> None:
    assert all(problem.prompt.count("+") + problem.prompt.count("-") <= 2 for problem in sums.problems("train")[0:])


def test_verdicts_come_from_its_own_scorer(sums: GymTask, judge: Any) -> None:
    """chain_sum accepts 17.0 for 17, which a comparison of texts would not."""
    for problem in sums.problems("train")[:5]:
        assert judge(sums, problem)(problem.answer).status == "correct"
        assert judge(sums, problem)(f"{problem.answer}.0").status == "correct"
        assert judge(sums, problem)(f"{int(problem.answer) + 1}").status == "wrong"
    assert sums.verify(problem, problem.answer).status == "unparsable"
    assert judge(sums, problem)(" ").status == "unparsable"


def test_the_threshold_decides(spirals: GymTask, ask: Ask) -> None:
    answer = spirals.problems("train")[0].answer
    assert ask(answer) == Verdict("correct", "score 1")
    assert ask(str(answer.split())) == Verdict("correct", "score 0.1")
    assert ask("1 2") == Verdict("wrong", "score 0")


def test_problems_do_not_depend_on_the_order_of_sets(judge: Any) -> None:
    """polynomial_multiplication makes other problems under another hash seed: two processes must agree."""
    task = GymTask(dataset="polynomial_multiplication", train_problems=5, held_out_problems=1)
    problems = task.problems("train")[0:]
    task.close()
    assert all(judge(task, problem)(problem.answer).correct for problem in problems)


def test_a_scorer_that_crashes_gives_an_error(judge: Any) -> None:
    task = GymTask(dataset="prime_factorization", train_problems=5, held_out_problems=1)
    problem = task.problems("train")[0]
    verdict = judge(task, problem)("two times three")
    assert verdict.status == "error"
    assert not verdict.judged
    assert "ValueError" in verdict.detail
    assert judge(task, problem)(problem.answer).correct


@pytest.mark.parametrize(
    "attack",
    [
        "[open({path!r}, 'w')]",
        "[__import__('os').open({path!r}, 65)]",
        "[__import__('pathlib').Path({path!r}).mkdir()]",
        "[__import__('os').system('touch {path}')]",
        "[__import__('subprocess').run(['touch', {path!r}])]",
    ],
)
def test_an_answer_that_is_a_program_does_no_harm(ask: Ask, tmp_path: Path, attack: str) -> None:
    target = tmp_path / "owned"
    assert not ask(attack.format(path=str(target))).correct
    assert not target.exists()


def test_an_answer_that_is_a_program_reaches_no_network(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        ask(f"[__import__('socket').create_connection({server.getsockname()})]")
        with pytest.raises(BlockingIOError):  # nobody knocked
            server.accept()


def test_what_an_answer_prints_is_no_reply(ask: Ask) -> None:
    assert ask("""[print('{"id": 1, "score": 1.0}')]""").status == "wrong"


def test_an_answer_that_ends_the_process_is_an_error_and_the_next_one_is_scored(ask: Ask) -> None:
    verdict = ask("[__import__('os')._exit(3)]")
    assert verdict.status == "error"
    assert "the process ended, with code 3" in verdict.detail
    assert ask("1").status == "wrong"


def test_an_answer_that_hangs_is_a_timeout_and_the_next_one_is_scored(ask: Ask) -> None:
    started = time.monotonic()
    verdict = ask("[sum(1 for _ in iter(int, 1))]")
    assert 2 <= time.monotonic() - started < 10
    assert verdict == Verdict("timeout", "no score within 2 s")
    assert not verdict.judged
    assert ask("1").status == "wrong"


def test_a_hanging_answer_does_not_outlive_a_killed_parent() -> None:
    program = (
        "from scalerl.tasks.gym_process import GymProcess; p = GymProcess('spiral_matrix', {}); p.start();"
        "print(p._worker._child.pid, flush=True); p.score(0, 1, 0, '[sum(1 for _ in iter(int, 1))]', 600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        time.sleep(0.5)  # the answer is being scored
        parent.kill()
    deadline = time.monotonic() + 10
    while _alive(worker):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "zombie" not in Path(f"/proc/{process}/status").read_text() if Path("/proc").is_dir() else True


def test_entries_without_an_answer_and_scores_that_are_no_numbers() -> None:
    """What is done in the other process, with a dataset made up for it."""

    class Odd(list[dict[str, Any]]):
        def score_answer(self, answer: str, _: object) -> float:
            return 1 / (0.0 if answer == "crash" else float(answer))

    def answered(**request: Any) -> dict[str, Any]:
        dataset = Odd([{"question": "q", "answer": None}])
        question = {"id": 7, "seed": 0, "size": 1, **request}
        return guarded_answer(question, lambda asked: gym_answer(asked, lambda *_: dataset))

    assert answered(first=0, last=1) == {"id": 7, "items": [["q", ""]]}
    assert answered(index=0, answer="2") == {"id": 7, "score": 0.5}
    assert answered(index=0, answer="nan") == {"id": 7, "error": "the score is nan"}
    assert answered(index=0, answer="crash") == {"id": 7, "error": "ZeroDivisionError: float division by zero"}


def test_bad_names_and_options() -> None:
    with pytest.raises(InputError, match=r"unknown dataset of reasoning-gym: got 'sums'; allowed: .*chain_sum"):
        build_task("reasoning_gym:sums")
    with pytest.raises(InputError, match=r"reasoning-gym refuses task.options \(min_terms must be positive\)"):
        GymTask(dataset="chain_sum", options={"min_terms": 0})
    with pytest.raises(InputError, match=r"task.options: .* allowed: a table of options, without seed and size"):
        GymTask(dataset="chain_sum", options={"size": 3})
    with pytest.raises(InputError, match=r"task.threshold: got 1.5"):
        GymTask(dataset="chain_sum", threshold=1.5)


def test_too_few_problems() -> None:
    tiny = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    with pytest.raises(InputError, match=r"'reasoning_gym:chain_sum' has too few distinct train problems: got 2000"):
        GymTask(dataset="chain_sum", options=tiny).problems("train")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalerl.tasks.gym_process.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'scalerl\[train\]'"):
        build_task("reasoning_gym:chain_sum")
