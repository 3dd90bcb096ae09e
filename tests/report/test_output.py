"""A picture arrives whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalerl.errors import InputError, StorageError
from scalerl.report import output


def test_the_format_is_the_suffix() -> None:
    assert output.format_of(Path("a/B.PNG")) == "png"
    for name in ("picture", "picture.jpeg", "picture."):
        with pytest.raises(InputError, match="png, svg, pdf, html"):
            output.format_of(Path(name))


def test_missing_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.png"
    assert output.write(path, b"data") == path
    assert path.read_bytes() == b"data"
    assert [p.name for p in path.parent.iterdir()] == ["c.png"]


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is a folder"):
        output.write(tmp_path, b"data")


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(InputError, match="not a regular file"):
        output.write(Path("/dev/null"), b"data")
    assert Path("/dev/null").is_char_device()


def test_a_file_in_the_way_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot write the picture"):
        output.write(tmp_path / "file" / "picture.png", b"data")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    old = tmp_path / "old.png"
    old.write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageError, match="No space left on device"):  # no bad input: exit code 1
        output.write(tmp_path / "new" / "deep" / "picture.png", b"data")
    with pytest.raises(StorageError):
        output.write(old, b"data")
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_bytes() == b"old"


def test_a_link_keeps_pointing(tmp_path: Path) -> None:
    (tmp_path / "real.png").write_bytes(b"old")
    (tmp_path / "link.png").symlink_to(tmp_path / "real.png")
    output.write(tmp_path / "link.png", b"new")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "real.png").read_bytes() == b"new"
