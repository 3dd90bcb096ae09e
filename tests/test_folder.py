"""Files and folders are complete or not there, whatever happens while they are written."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path

import pytest

from scalerl import folder
from scalerl.errors import InputError, StorageError
from scalerl.folder import check_writable, complete_folder, refuse_existing, replace_file


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    with complete_folder(tmp_path / "deep" / "new") as partial:
        (partial / "file").write_text("content")
        assert not (tmp_path / "deep" / "new").exists()
        assert partial.name.endswith(".partial")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["new"]
    assert (tmp_path / "deep" / "new" / "file").read_text() == "content"


def write(path: Path, error: Exception) -> None:
    """Begin a folder, and fail."""
    with complete_folder(path) as partial:
        (partial / "file").write_text("content")
        raise error


def write_too_late(path: Path) -> None:
    """Complete a folder while somebody else does the same."""
    with complete_folder(path) as partial:
        (partial / "file").write_text("ours")
        path.mkdir()
        (path / "file").write_text("theirs")


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write(tmp_path / "new", KeyError())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_somebody_else_completed_first_wins(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        write_too_late(tmp_path / "new")
    assert (tmp_path / "new" / "file").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, StorageError), (errno.EDQUOT, StorageError), (errno.EACCES, InputError)]
)
def test_a_full_disk_is_no_bad_input(tmp_path: Path, number: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"new: .*cannot be written \(.+\)"):
        write(tmp_path / "new", OSError(number, os.strerror(number)))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_the_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", fail)
    with pytest.raises(StorageError, match=r"new: cannot be written \(No space left on device\)"):
        check_writable(tmp_path / "new")


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    replace_file(tmp_path / "file", "old")
    replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    replace_file(tmp_path / "file", "old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match=r"file: cannot be written \(No space left on device\)"):
        replace_file(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(StorageError, match="No such file"):
        replace_file(tmp_path / "nowhere" / "file", "new")


def test_only_a_free_name_or_an_empty_folder_will_do(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "free")
    refuse_existing(tmp_path)
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="the folder exists already; allowed: a new folder"):
            refuse_existing(path)


def test_half_a_character_is_written_as_json_escapes_it(tmp_path: Path) -> None:
    """A command line with a file name that is not UTF-8 stands in provenance.json."""
    replace_file(tmp_path / "a.json", json.dumps({"path": "\udcff"}, ensure_ascii=False))
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"path": "\udcff"}


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_probe_that_cannot_be_removed_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "rmdir", refuse)
    with pytest.raises(StorageError, match=r"new: cannot be written \(Input/output error\)"):
        check_writable(tmp_path / "new")


def test_a_folder_that_cannot_be_opened_to_others_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(StorageError, match="new: cannot be written"):
        check_writable(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_name_does_not_reach_the_disk_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was told that it failed can try again: nothing is in the way."""
    with monkeypatch.context() as patch:
        real, calls = folder.flush_names, iter(range(100))
        patch.setattr(folder, "flush_names", lambda path: refuse() if next(calls) == 2 else real(path))
        with pytest.raises(StorageError, match="Input/output error"), complete_folder(tmp_path / "new") as partial:
            (partial / "file").write_text("content")
    assert list(tmp_path.iterdir()) == []
    refuse_existing(tmp_path / "new")
