"""Console output of verl and TRL, dicts with a step in front, and lines of `key: number` pairs.

verl's lines are as `concat_dict_to_str` in verl/utils/logger/aggregate_logger.py (volcengine/verl) prints them, behind
the prefix that ray adds; OpenRLHF's as in openrlhf/trainer/ppo_trainer.py; slime's as its `log_perf_data_raw` has them.
What the Trainer of transformers prints is in test_real_trainer.py.
"""

from pathlib import Path

import pytest

from scalerl.errors import InputError
from scalerl.readers.logs.console import ConsoleLog, find_console_log, is_console_log
from scalerl.readers.logs.records import Record, Tally

HERE = Path(__file__).parent
TRL = HERE / "data" / "trl_console.log"
RAY = "\x1b[36m(TaskRunner pid=4321)\x1b[0m "
VERL = [
    RAY + "step:0 - val-core/openai/gsm8k/acc/mean@1:0.0826",
    RAY + "step:1 - actor/lr:1e-06 - timing_s/step:41.5 - perf/total_num_tokens:90112 - training/global_step:1",
    RAY
    + "step:2 - actor/lr:np.float64(1e-06) - timing_s/step:40.25 - val-core/openai/gsm8k/acc/mean@1:np.float64(0.41)",
]
CHATTER = [
    "Loading model...",
    "(WorkerDict pid=77) INFO 03-01 10:00:00 worker.py:12] took 3.2 s",
    "{'trainer': {'nnodes': 1}}",
]


def read(path: Path, data: bytes | str | list[str] | None = None) -> tuple[list[Record], Tally]:
    if isinstance(data, list):
        data = "".join(line + "\n" for line in data)
    if data is not None:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    tally = Tally()
    return list(ConsoleLog(path, str(path)).records(tally)), tally


def pairs(records: list[Record]) -> list[tuple[float | None, dict[str, float]]]:
    return [(record.step, dict(record.values)) for record in records]


def test_verl(tmp_path: Path) -> None:
    lines = [*CHATTER, VERL[0], CHATTER[1], VERL[1], VERL[2], "Final validation metrics: {'val-core/x': 0.4}"]
    records, tally = read(tmp_path / "log", lines)
    assert pairs(records) == [
        (0, {"val-core/openai/gsm8k/acc/mean@1": 0.0826}),
        (1, {"actor/lr": 1e-6, "timing_s/step": 41.5, "perf/total_num_tokens": 90112, "training/global_step": 1}),
        (2, {"actor/lr": 1e-6, "timing_s/step": 40.25, "val-core/openai/gsm8k/acc/mean@1": 0.41}),
    ]
    assert tally.skipped == {}
    assert ConsoleLog(tmp_path / "log", "").kind == "console output with verl's step lines"


@pytest.mark.parametrize(
    ("data", "steps", "skipped"),
    [
        (VERL[1] + "\n" + VERL[2][:-4], [1, 2], {"damaged metrics": 1}),  # the end of a number may be missing
        (VERL[1] + VERL[2] + "\n", [1, 2], {"damaged metrics": 1}),  # two writers in one line
        (VERL[1] + "\n" + RAY + "step:3 - a:1.0 - b:oops - c:\ufffd1 - d:nan\n", [1, 3], {"damaged metrics": 2}),
        (VERL[1] + "\n" + RAY + "step:3 - actor/\n" + VERL[2] + "\n", [1, 2], {"damaged metric lines": 1}),
        (VERL[1] + " [repeated 3x across cluster]\n", [1], {}),
        (VERL[1] + "\n" + "\0" * 9 + VERL[2] + "\n", [1, 2], {"lines with NUL bytes (which were ignored)": 1}),
    ],
)
def test_damage_to_verl(tmp_path: Path, data: str, steps: list[int], skipped: dict[str, int]) -> None:
    records, tally = read(tmp_path / "log", data)
    assert [record.step for record in records] == steps
    assert tally.skipped == skipped


def test_bytes_that_are_not_utf8_in_the_chatter(tmp_path: Path) -> None:
    data = b"caf\xe9 \xff\xfe\n" + VERL[1].encode() + b"\n\x80\x81\n" + VERL[2].encode() + b"\n"
    records, tally = read(tmp_path / "log", data)
    assert [record.step for record in records] == [1, 2]
    assert tally.skipped == {}


def test_trl_killed_and_resumed() -> None:
    records, tally = read(TRL)
    assert [record.step for record in records] == [0, 2, 4, 4, 6, 6, 8, 8, 10, 12, 12, 12]
    evals = [(record.step, record.values["eval_reward"]) for record in records if "eval_reward" in record.values]
    assert evals == [(0, 0.4458), (4, 0.4458), (8, 0.6219), (12, 0.525)]
    assert tally.skipped == {}


def test_dicts_held_back_by_a_buffer_get_no_step(tmp_path: Path) -> None:
    """Python writes to a pipe in blocks, then dicts stand where the buffer was full, not where they belong."""
    text = TRL.read_bytes().decode()
    dicts = [line[line.index("{'") :] for line in text.splitlines() if "{'" in line]
    bars = [line for line in text.replace("\r", "\n").splitlines() if "/12 [" in line]
    records, tally = read(tmp_path / "log", [*dicts[:6], *bars, *dicts[6:]])
    assert [record.step for record in records] == [None] * 12
    assert tally.skipped == {}


def test_a_dict_out_of_place_is_counted_when_the_others_have_steps(tmp_path: Path) -> None:
    extra = b"{'loss': 0.5, 'epoch': 0.9}\n{'loss': 0.6, 'epo\n"
    records, tally = read(tmp_path / "log", TRL.read_bytes() + extra)
    assert len(records) == 12
    assert tally.skipped == {"printed dicts whose step cannot be told": 1}


@pytest.mark.parametrize(
    "line",
    ["2026-03-01 10:00:00 INFO \u2728 Global step 7: {'policy_loss': 0.1, 'reward': tensor(0.5), 'kl': nan, 'x': None}",
     "[2026-03-01 10:00:00] actor.py:88 - perf 7: {'policy_loss': 0.1, 'reward': np.float64(0.5), 'kl': nan}"],
)  # fmt: skip
def test_dicts_with_the_step_in_front(tmp_path: Path, line: str) -> None:
    records, tally = read(tmp_path / "log", [line, line.replace(" 7:", " 8:")])
    assert [record.step for record in records] == [7, 8]
    assert str(records[0].values) == "{'policy_loss': 0.1, 'reward': 0.5, 'kl': nan}"
    assert records[0].time_s == records[1].time_s is not None
    assert tally.skipped == {}


@pytest.mark.parametrize(
    "line",
    [
        "step={} loss=0.25 eval/acc=0.41",
        "INFO:root:Step {}/500, loss: 0.25, eval/acc: 4.1e-1.",
        "iteration: {} | loss: 0.25 | eval/acc: 0.41 |",
        "10:00:01 SUCCESS Step {} | loss: 0.25s | eval/acc: 0.41 tokens/sample",
        "global_step = {}  loss = .25  eval/acc = 0.41",
    ],
)
def test_pairs(tmp_path: Path, line: str) -> None:
    records, tally = read(tmp_path / "log", [*CHATTER, *(line.format(step) for step in (5, 10, 15))])
    assert pairs(records) == [(step, {"loss": 0.25, "eval/acc": 0.41}) for step in (5, 10, 15)]
    assert tally.skipped == {}


def test_names_with_blanks_between_bars(tmp_path: Path) -> None:
    lines = [f"Step {step} | Time: 3.25s | Reward: 0.5 | Seq. Length: 128.0 tokens/sample" for step in (1, 2, 3)]
    records, _ = read(tmp_path / "log", lines)
    assert records[0].values == {"Time": 3.25, "Reward": 0.5, "Seq. Length": 128.0}


def test_the_last_pair_of_a_torn_line_is_not_believed(tmp_path: Path) -> None:
    records, tally = read(
        tmp_path / "log", "step=1 a=1.0 b=2.0\nstep=2 a=1.0 b=2.0\nstep=3 a=1.0 b=2.0\nstep=4 a=1.0 b=2."
    )
    assert records[-1].values == {"a": 1.0}
    assert tally.skipped == {"damaged metrics": 1}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        CHATTER,
        ["step,loss", "1,0.5"],
        ["acc: 0.5"] * 5,
        ["step 1 done", "step 2 done"],
        ['{"step": 1, "acc": 0.5}'] * 3,
    ],
)
def test_chatter_is_no_log(tmp_path: Path, lines: list[str]) -> None:
    assert not is_console_log(lines)
    with pytest.raises(InputError, match="no metric lines that we know"):
        read(tmp_path / "log", lines)


@pytest.mark.parametrize("noise", ["1" * 200_000, "a+" * 100_000, "'" * 200_000, "{'a" * 70_000, "step 1 " * 30_000])
def test_huge_lines_that_nearly_match_cost_no_time(tmp_path: Path, noise: str) -> None:
    """Without bounds in the patterns these take minutes to hours."""
    line = f"step=7 {noise}! acc="
    records, _ = read(tmp_path / "log", ["step=1 acc=0.5", "step=2 acc=0.5", "step=3 acc=0.5", line])
    assert [record.step for record in records] == [1, 2, 3]
    read(
        tmp_path / "log", ["{'acc': 0.5, 'step': 1}", "{'acc': 0.5, 'step': 2}", "{'epoch': " + noise, noise + "{'a': "]
    )


def test_metrics_may_come_late(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("loading the model\n" * 50_000 + VERL[1] + "\n")
    log = find_console_log(path, "log")
    assert log is not None
    assert [record.step for record in log.records(Tally())] == [1]
    path.write_text("loading the model\n" * 10)
    assert find_console_log(path, "log") is None


def test_a_log_is_recognised_by_its_lines() -> None:
    assert is_console_log([*CHATTER, VERL[1]])
    assert is_console_log(TRL.read_bytes().decode().replace("\r", "\n").splitlines())
