"""What every log shares: metrics chosen, restarts merged, compute built, everything said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalerl.errors import InputError
from scalerl.readers.logs.axis import Devices
from scalerl.readers.logs.curve import Wanted, read_log
from scalerl.readers.logs.records import Record
from scalerl.series import Series

from .memory import MemoryLog, steps


def curve(log: MemoryLog, wanted: Wanted | None = None) -> Series:
    (series,) = read_log(log, wanted or Wanted(), "run")
    return series


def said(series: Series, words: str) -> bool:
    return any(words in note for note in series.notes)


class TestMetric:
    def test_the_held_out_metric_is_found_and_said(self) -> None:
        series = curve(MemoryLog(steps(0, 60)))
        assert series.value_name == "val/acc"
        assert series.compute.tolist() == [10, 20, 30, 40, 50, 60]
        assert series.start is not None
        assert series.start.value == 0.0
        assert said(series, "value: val/acc (guessed; choose with --metric)")
        assert said(series, "compute: step = the trainer's step")

    def test_a_named_metric_wins(self) -> None:
        series = curve(MemoryLog(steps(1, 60)), Wanted(y="loss"))
        assert len(series) == 60
        assert said(series, "loss does not look like a held-out metric")

    def test_several_candidates_are_listed(self) -> None:
        log = MemoryLog([Record({"eval/a/acc": 0.1, "eval/b/acc": 0.2}, step) for step in range(9)])
        with pytest.raises(InputError, match=r"several metrics look like the value.*eval/a/acc, eval/b/acc"):
            curve(log)

    def test_verl_validation_comes_before_training_rewards(self) -> None:
        values = {"critic/rewards/mean": 0.1, "val-core/gsm8k/acc/mean@8": 0.4, "val-aux/gsm8k/acc/std@8": 0.1}
        assert (
            curve(MemoryLog([Record(values, step) for step in range(1, 9)])).value_name == "val-core/gsm8k/acc/mean@8"
        )

    def test_unknown_metric_names_the_closest(self) -> None:
        with pytest.raises(InputError, match=r"unknown metric for --metric: got 'val/ac'.*closest: val/acc"):
            curve(MemoryLog(steps(0, 60)), Wanted(y="val/ac"))

    def test_an_empty_log_says_what_was_lost(self) -> None:
        with pytest.raises(InputError, match=r"no metric in this log.*skipped 3 broken lines \(first: line 1\)"):
            curve(MemoryLog([], lost={"broken lines": 3}))

    def test_nan_is_skipped_and_counted(self) -> None:
        records = [Record({"val/acc": math.nan if step == 3 else 0.1 * step}, step) for step in range(1, 8)]
        series = curve(MemoryLog(records, lost={"broken lines": 2}))
        assert series.compute.tolist() == [1, 2, 4, 5, 6, 7]
        assert said(series, "skipped 1 value of val/acc that is NaN or infinite")
        assert said(series, "skipped 2 broken lines")

    def test_n_is_a_metric_or_a_number(self) -> None:
        records = [Record({"val/acc": 0.1 * step, "val/n": 64.0}, step) for step in range(1, 8)]
        by_metric, by_number = curve(MemoryLog(records)), curve(MemoryLog(records), Wanted(n="256"))
        assert by_metric.n is not None
        assert by_metric.n.tolist() == [64.0] * 7
        assert by_number.n is not None
        assert by_number.n.tolist() == [256.0] * 7

    def test_values_outside_the_bounds_are_refused(self) -> None:
        log = MemoryLog([Record({"val/acc": 40.0}, step) for step in range(1, 8)])
        with pytest.raises(InputError, match=r"memory, point 1: unusable 'val/acc': got 40.0.*percentages"):
            curve(log)


class TestRestarts:
    def test_the_later_part_wins_and_abandoned_points_go(self) -> None:
        """Crash at 57, resumed at 31: the evaluations at 40 and 50 of the first life are gone until they come again."""
        records = [*steps(0, 57, value=0.1), *steps(31, 45, session=1, value=0.7)]
        series = curve(MemoryLog(records))
        assert series.compute.tolist() == [10, 20, 30, 40]
        assert series.value.tolist() == [0.1, 0.1, 0.1, 0.7]
        assert said(series, "resumed: the step went back from 57 to 31; the later part replaces the earlier one")
        assert said(series, "2 earlier values of val/acc were replaced")

    def test_a_reset_is_said_and_replaces(self) -> None:
        series = curve(MemoryLog([*steps(0, 50, value=0.1), *steps(0, 70, value=0.5)]))
        assert set(series.value.tolist()) == {0.5}
        assert said(series, "step reset: the step went back from 50 to 0")
        assert said(series, "--restarts continue")

    def test_a_reset_can_count_on(self) -> None:
        wanted = Wanted(restarts="continue")
        series = curve(MemoryLog([*steps(0, 50, value=0.1), *steps(1, 70, value=0.5)]), wanted)
        assert series.compute.tolist() == [*range(10, 130, 10)]
        assert series.value.tolist() == [0.1] * 5 + [0.5] * 7

    def test_a_partial_rewind_does_not_count_on_and_says_so(self) -> None:
        wanted = Wanted(restarts="continue")
        series = curve(MemoryLog([*steps(0, 57, value=0.1), *steps(31, 60, value=0.7)]), wanted)
        assert series.compute.tolist() == [10, 20, 30, 40, 50, 60]
        assert said(series, "the later part replaces the earlier one (--restarts continue counts on only where steps")

    def test_late_metrics_of_an_earlier_step_are_no_restart(self) -> None:
        """An evaluation of step 10 that is written when training is at 13."""
        records: list[Record] = []
        for step in range(1, 61):
            records.append(Record({"loss": 1.0}, step))
            if step % 10 == 3 and step > 10:
                records.append(Record({"eval/acc": step / 100}, step - 3))
        series = curve(MemoryLog(records))
        assert series.compute.tolist() == [10, 20, 30, 40, 50]
        assert not said(series, "went back")

    def test_a_session_that_begins_where_the_last_ended_replaces_its_point(self) -> None:
        records = [*steps(0, 50, value=0.1), *steps(50, 80, session=1, value=0.5)]
        assert curve(MemoryLog(records)).value.tolist() == [0.1] * 4 + [0.5] * 4

    def test_interleaved_writers_are_told_apart_from_restarts(self) -> None:
        one, two = steps(0, 100, value=0.1), steps(0, 100, value=0.2)
        records = [record for a, b in zip(one[2:], two[:-2], strict=True) for record in (a, b)]
        series = curve(MemoryLog(records))
        assert len(series) == 10
        assert said(series, "several writers")

    def test_entries_without_steps_are_counted(self) -> None:
        series = curve(MemoryLog([Record({"eval/acc": 0.1 * i}) for i in range(1, 8)]))
        assert series.compute.tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert said(series, "points are counted: the log has no steps")


class TestCompute:
    def test_gpu_hours_from_seconds_a_step(self) -> None:
        series = curve(MemoryLog(steps(1, 60)), Wanted(devices=Devices(gpus=8)))
        assert series.compute_name == "gpu_hours"
        np.testing.assert_allclose(series.compute, np.arange(10, 61, 10) * 2.0 * 8 / 3600)
        assert said(series, "gpu_hours = step_time, summed over the steps x 8 GPUs / 3600 (--gpus)")

    def test_seconds_logged_every_few_steps_count_for_all_of_them(self) -> None:
        records = [Record({"step_time": 2.0, "val/acc": step / 1000}, step) for step in range(10, 70, 10)]
        series = curve(MemoryLog(records), Wanted(devices=Devices(gpus=1800)))
        np.testing.assert_allclose(series.compute, np.arange(10, 61, 10))

    def test_gpu_hours_from_the_clock_without_the_gap_of_a_restart(self) -> None:
        """3 s a step; the second session starts 850 s later. No metric has times."""
        records = [*steps(1, 50), *steps(41, 80, session=1)]
        bare = [Record({"val/acc": 0.1}, r.step, r.time_s, r.session) for r in records]
        series = curve(MemoryLog(bare), Wanted(devices=Devices(gpus=1)))
        hours = series.compute * 3600
        assert hours[0] == pytest.approx(3.0, rel=0.1)
        assert hours[-1] == pytest.approx(80 * 3.0, rel=0.05)
        assert said(series, "the log's clock without the gaps of restarts")

    def test_hours_per_step(self) -> None:
        series = curve(MemoryLog(steps(0, 60)), Wanted(devices=Devices(gpu_hours_per_step=0.5)))
        assert series.compute.tolist() == [5, 10, 15, 20, 25, 30]

    def test_flops_from_running_tokens(self) -> None:
        records = [Record({"num_tokens": 100.0 * step, "val/acc": 0.1}, step) for step in range(1, 8)]
        series = curve(MemoryLog(records), Wanted(devices=Devices(params=1e6)))
        np.testing.assert_allclose(series.compute, 8e6 * 100 * np.arange(1, 8))
        assert series.compute_name == "flops"

    def test_tokens_of_each_step_are_summed(self) -> None:
        tokens = [50.0, 70.0, 60.0, 90.0, 40.0, 80.0]
        records = [
            Record({"perf/total_num_tokens": count, "val/acc": 0.1}, step) for step, count in enumerate(tokens, 1)
        ]
        series = curve(MemoryLog(records))
        assert series.compute.tolist() == np.cumsum(tokens).tolist()
        assert said(series, "tokens = perf/total_num_tokens, summed over the steps")

    def test_a_running_total_that_began_anew_goes_on(self) -> None:
        first = [Record({"num_tokens": 100.0 * step, "val/acc": 0.1}, step) for step in range(1, 6)]
        second = [Record({"num_tokens": 100.0 * (step - 3), "val/acc": 0.2}, step) for step in range(4, 9)]
        series = curve(MemoryLog([*first, *second]))
        assert series.compute.tolist() == [100, 200, 300, 400, 500, 600, 700, 800]

    def test_compute_in_the_log_comes_first(self) -> None:
        records = [
            Record({"perf/gpu_hours": 2.0 * step, "num_tokens": 7.0 * step, "val/acc": 0.1}, step)
            for step in range(1, 8)
        ]
        series = curve(MemoryLog(records))
        assert series.compute.tolist() == [2, 4, 6, 8, 10, 12, 14]
        assert said(series, "gpu_hours = perf/gpu_hours, as logged")

    @pytest.mark.parametrize(("x", "last"), [("steps", 60.0), ("hours", 60 * 2 / 3600), ("loss_total", 120.0)])
    def test_x_as_asked(self, x: str, last: float) -> None:
        records = [Record({**r.values, "loss_total": 2.0 * (r.step or 0)}, r.step, r.time_s) for r in steps(1, 60)]
        assert curve(MemoryLog(records), Wanted(x=x)).compute[-1] == pytest.approx(last)

    def test_an_evaluation_after_the_last_logged_step_goes_on_at_the_last_pace(self) -> None:
        records = [*[Record({"step_time": 2.0}, step) for step in range(1, 51)]]
        records += [Record({"val/acc": 0.1}, step) for step in range(10, 70, 10)]
        series = curve(MemoryLog(records), Wanted(devices=Devices(gpus=1800)))
        np.testing.assert_allclose(series.compute, np.arange(10, 61, 10))

    def test_bad_wishes_are_refused(self) -> None:
        plain = MemoryLog([Record({"val/acc": 0.1}, step) for step in range(1, 8)])
        with pytest.raises(InputError, match="the log has no times"):
            curve(plain, Wanted(devices=Devices(gpus=8)))
        with pytest.raises(InputError, match="--params needs tokens"):
            curve(plain, Wanted(devices=Devices(params=8e9)))
        with pytest.raises(InputError, match="--x together with --gpus"):
            curve(plain, Wanted(x="steps", devices=Devices(gpus=8)))
        with pytest.raises(InputError, match="--gpus and --params together"):
            Devices(gpus=8, params=1e9)
        with pytest.raises(InputError, match=r"unknown metric for --x.*steps, tokens, hours"):
            curve(plain, Wanted(x="flopz"))


def test_progress_covers_both_passes() -> None:
    seen: list[tuple[int, int]] = []
    curve(MemoryLog(steps(0, 60)), Wanted(progress=lambda done, total: seen.append((done, total))))
    assert seen == [(0, 20), (10, 20), (10, 20), (20, 20)]
