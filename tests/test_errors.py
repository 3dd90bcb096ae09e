"""Errors: one line that says everything, catchable as the stdlib type, and able to cross a process boundary."""

from __future__ import annotations

import pickle

import pytest

from scalerl.errors import InputError, MissingDependencyError, ScaleRLError, StorageError


def test_message_names_what_value_allowed_and_where_in_one_line() -> None:
    error = InputError("duplicate compute", 100.0, "each compute once", "run.csv, line 4")
    assert str(error) == "run.csv, line 4: duplicate compute: got 100.0; allowed: each compute once"


def test_parts_that_are_not_known_are_left_out() -> None:
    assert str(InputError("no series to fit")) == "no series to fit"
    assert str(InputError("unknown law", "cubic")) == "unknown law: got 'cubic'"
    assert str(InputError("unusable level", 0)) == "unusable level: got 0"  # zero is a value, not a missing one


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InputError("unknown law", "cubic", "sigmoid, power", "options"), ValueError),
        (MissingDependencyError("pyarrow", "parquet"), ImportError),
        (StorageError(28, "No space left on device", "runs/a/metrics.jsonl"), OSError),
    ],
)
def test_caught_as_ours_and_as_the_standard_type(error: ScaleRLError, kind: type[Exception]) -> None:
    assert isinstance(error, ScaleRLError)
    assert isinstance(error, kind)


def test_survives_pickling_with_its_parts() -> None:
    back = pickle.loads(pickle.dumps(InputError("unknown law", "cubic", "sigmoid, power", "options")))
    assert (back.what, back.value, back.allowed, back.where) == ("unknown law", "cubic", "sigmoid, power", "options")
    missing = pickle.loads(pickle.dumps(MissingDependencyError("pyarrow", "parquet")))
    assert str(missing) == "this needs the package 'pyarrow': pip install 'scalerl[parquet]'"
    full = pickle.loads(pickle.dumps(StorageError.of(OSError(28, "No space left on device"), "a/metrics.jsonl")))
    assert (full.errno, full.reason, full.where) == (28, "No space left on device", "a/metrics.jsonl")
    assert str(full) == "a/metrics.jsonl: cannot be written (No space left on device); what was saved before is kept"


def test_whatever_the_value_the_message_is_one_line() -> None:
    assert str(InputError("odd\nkey", "a\nb", "c\r\nd", "e\nf")) == "e f: odd key: got 'a\\nb'; allowed: c d"
    assert str(InputError("seed", int("f" * 5000, 16))) == "seed: got a huge int"
