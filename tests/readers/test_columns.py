"""Guessing columns from their names."""

import pytest

from scalerl.errors import InputError
from scalerl.readers.columns import Picked, pick


def guess(names: str, *, text: str = "", **options: str) -> Picked:
    """Pick from a comma-separated header; the columns in `text` do not hold numbers."""
    return pick(names.split(","), lambda column: column not in text.split(","), where="run.csv", **options)


@pytest.mark.parametrize(
    ("names", "x", "y"),
    [
        ("gpu_hours,pass_rate", "gpu_hours", "pass_rate"),
        ("GPU-Hours,Pass@1", "GPU-Hours", "Pass@1"),
        ("step,compute,y", "compute", "y"),
        ("step,tokens,acc", "tokens", "acc"),
        ("step,cum_seconds,cum_tokens,value", "cum_tokens", "value"),
        ("step,cum_seconds,accuracy", "cum_seconds", "accuracy"),
        ("global_step,total_flops,score", "total_flops", "score"),
        ("step,h100_hours,mean_reward", "h100_hours", "mean_reward"),
        ("device_seconds,step,val/accuracy,accuracy", "device_seconds", "val/accuracy"),
        ("step,reward,pass_rate,loss", "step", "pass_rate"),
        ("step,reward,acc", "step", "acc"),
        ("step,loss,eval/aime24", "step", "eval/aime24"),
        ("train/global_step,val/loss,val/gsm8k", "train/global_step", "val/gsm8k"),
        ("_step,epoch,mean@16", "_step", "mean@16"),
        ("hours,reward/mean", "hours", "reward/mean"),
        ("foo,bar", "foo", "bar"),
        ("bar,step", "step", "bar"),
        ("acc,foo", "foo", "acc"),
        ("n,pass_rate,step", "step", "pass_rate"),
    ],
)
def test_guess(names: str, x: str, y: str) -> None:
    picked = guess(names)
    assert (picked.x, picked.y) == (x, y)


@pytest.mark.parametrize("name", ["n", "n_eval", "num_eval", "N_Samples", "num_questions", "eval/n", "val_size"])
def test_guess_n(name: str) -> None:
    assert guess(f"step,acc,{name}").n == name


def test_samples_is_not_taken_for_n() -> None:
    assert guess("step,acc,samples").n is None


def test_a_guessed_column_must_start_with_a_number() -> None:
    assert guess("step,cum_tokens,y", text="cum_tokens").x == "step"


def test_named_columns_win_and_are_not_guessed_again() -> None:
    assert guess("step,tokens,acc,reward", x="STEP", y="reward") == Picked("step", "reward")
    assert guess("y,step", x="y", y="step") == Picked("y", "step")
    assert guess("foo,bar,baz", x="bar", y="foo", by="baz") == Picked("bar", "foo", None, ("baz",))


def test_two_columns_beside_the_by_column() -> None:
    assert guess("run,foo,bar", by="run") == Picked("foo", "bar", None, ("run",))


def test_by_column_with_a_comma_in_its_name() -> None:
    picked = pick(["a,b", "step", "y"], lambda _: True, by="a,b")
    assert picked.by == ("a,b",)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("gpu_hours,flops,acc", "several columns look like the compute; allowed: --x with one of gpu_hours, flops"),
        ("step,pass@1,pass@8", "several columns look like the value; allowed: --y with one of pass@1, pass@8"),
        ("step,val/math,val/code", "allowed: --y with one of val/math, val/code"),
        ("step,acc,n_eval,n_samples", "--n with one of n_eval, n_samples"),
        ("foo,bar,baz", "no column looks like the compute; allowed: --x with one of foo, bar, baz"),
        ("step,bar,baz", "no column looks like the value; allowed: --y with one of step, bar, baz"),
        ("step,step,y", "no column looks like the compute"),
    ],
)
def test_refusals(names: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        guess(names)
    assert message in str(caught.value)
    assert str(caught.value).startswith("run.csv: ")


def test_a_column_that_is_there_twice_cannot_be_named() -> None:
    with pytest.raises(InputError, match="more than once"):
        guess("step,step,y", x="step")


def test_text_under_a_known_name_is_picked_only_when_nothing_else_fits() -> None:
    assert guess("time,step,y", text="time").x == "step"
    assert guess("gpu_hours,y", text="gpu_hours").x == "gpu_hours"


def test_a_long_list_of_columns_is_cut() -> None:
    with pytest.raises(InputError) as caught:
        guess(",".join(f"column{i}" for i in range(500)))
    assert "... (500 columns)" in str(caught.value)
    assert len(str(caught.value)) < 600
