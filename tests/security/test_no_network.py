"""What only reads and computes makes no connection: neither our code nor anybody's below it (`sealed`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import curve, write
from tests.report.runs import begin
from tests.study.simulated import curves_of_study, folder_of

SEALED = Path(__file__).with_name("sealed.py")
COMMANDS = [
    "read log.jsonl --list",
    "read log.jsonl --metric val/acc --gpu-hours-per-step 8 --to curve.csv",
    "fit one.csv --budget 100k --plot fit.png",
    "fit one.csv --plot fit.html --json",
    "fit run --until 50% --budget end",
    "fit --example scalerl-8b --budget 100000",
    "compare one.csv two.csv --plot both.svg",
    "decide one.csv --budget 100k --delta 0.03",
    "backtest one.csv --shares 0.5",
    "report one.csv two.csv run -o page.html",
    "report one.csv --format pdf -o page.pdf",
    "plan --params 8e9 --gpus 80 --length 8000",
    "runs list .",
    "runs show run",
    "study plan leave_one_out",
    "study status study",
    "study report study",
    "data inspect problems.jsonl",
    "export-config trl",
    "train --dry-run",
    "watch one.csv --no-page --timeout 0.1",
]
EVERY_MODULE = """
import importlib, pkgutil, scalerl
for found in pkgutil.walk_packages(scalerl.__path__, "scalerl."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""
A_POLICY = """
from pathlib import Path
import torch
from scalerl.policy.pretrained import read_model, read_tokenizer, resolve
from scalerl.policy import TinyLlama, build_policy
folder = build_policy("policy", TinyLlama(layers=1, width=16, heads=2, feed_forward=24, context=64))
read_tokenizer(resolve(str(folder)))
read_model(folder, torch.float32)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Something for every command to read."""
    place = tmp_path_factory.mktemp("sealed")
    write(place / "one.csv", *curve(0.7, 600, 1))
    write(place / "two.csv", *curve(0.55, 600, 2))
    rows = [
        {"step": round(c), "time_s": c, "val/acc": v, "reward": v} for c, v in zip(*curve(0.7, 600, 3), strict=True)
    ]
    (place / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = [{"prompt": f"{i} + {i}?", "answer": str(2 * i)} for i in range(20)]
    (place / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    begin(place / "run", range(0, 400, 20), finished=True)
    folder_of(place / "study", curves_of_study(("base", "worse"), (0, 1)))
    return place


def sealed(folder: Path, *commands: dict[str, Any]) -> dict[str, Any]:
    """Run them one after the other in one sealed process."""
    environment = {name: value for name, value in os.environ.items() if "OFFLINE" not in name}
    asked = json.dumps([{"cd": str(folder), **command} for command in commands])
    done = subprocess.run(
        [sys.executable, str(SEALED)], input=asked, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, f"{done.returncode} (-31: a socket was made below Python)\n{done.stderr[-3000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_command_that_reads_works_without_a_socket(folder: Path) -> None:
    found = sealed(folder, *({"arguments": command.split()} for command in COMMANDS))
    assert found["tried"] == []
    failed = [(command, ran) for command, ran in zip(COMMANDS, found["results"], strict=True) if ran["code"] != 0]
    assert failed == []
    assert found["sealed"] or sys.platform != "linux"
    for made in ("curve.csv", "fit.png", "fit.html", "both.svg", "page.html", "page.pdf", "study/report.html"):
        assert (folder / made).stat().st_size > 0


def test_no_import_and_no_local_policy_asks_for_anything(folder: Path) -> None:
    """Without HF_HUB_OFFLINE: a folder is read as a folder, and nobody looks whether there is a newer one."""
    pytest.importorskip("transformers")
    assert sealed(folder, {"code": EVERY_MODULE}, {"code": A_POLICY})["tried"] == []


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import socket; socket.getaddrinfo('localhost', 80)",
        "import socket; socket.socket(socket.AF_UNIX)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
    ],
)
def test_the_seal_holds_in_python(folder: Path, code: str) -> None:
    tight = f"try:\n    {code}\nexcept PermissionError:\n    pass"
    assert len(sealed(folder, {"code": tight})["tried"]) == 1


def test_the_seal_holds_below_python(folder: Path) -> None:
    code = "import ctypes; ctypes.CDLL(None).socket(2, 1, 0)"
    with pytest.raises(AssertionError, match="-31"):
        sealed(folder, {"code": code})
