"""The light install, proved: build the wheel, install the base elsewhere, use it from there."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "matplotlib", "plotly", "pydantic", "pandas", "pyarrow")


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the source tree and without its path; its output."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("scalerl-*.whl")
    return built


@pytest.fixture(scope="session")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the base install; the programs in it."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return programs


def python(programs: Path, code: str, cwd: Path) -> str:
    return run(programs / "python", "-c", code, cwd=cwd).strip()


def test_nothing_of_the_package_is_missing(wheel: Path) -> None:
    """The build leaves out what .gitignore names: a line too wide once took `scalerl/runs` along."""
    source = ROOT / "src"
    files = (file for file in (source / "scalerl").rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert {file.relative_to(source).as_posix() for file in files} - packed == set()


def test_public_api_is_importable_without_torch(elsewhere: Path, tmp_path: Path) -> None:
    code = (
        "import scalerl; from scalerl import Series, fit, forecast, compare, decide, backtest; print(scalerl.__file__)"
    )
    assert str(elsewhere.parent) in python(elsewhere, code, tmp_path)
    found = "import importlib.util as u; print(u.find_spec('torch'))"
    assert python(elsewhere, found, tmp_path) == "None"


@pytest.mark.parametrize("module", ["scalerl", "scalerl.curves", "scalerl.readers"])
def test_the_engine_loads_nothing_heavy(elsewhere: Path, tmp_path: Path, module: str) -> None:
    code = f"import sys, {module}; print(sorted(sys.modules.keys() & set({HEAVY!r})))"
    assert python(elsewhere, code, tmp_path) == "[]"


def test_a_fit_runs_without_loading_anything_heavy(elsewhere: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from scalerl import fit; from scalerl.readers import load_example;"
        "e = load_example('scalerl-8b'); f = fit(e.series, floor=e.floor, window=e.window);"
        f"print(0.6 < f.ceiling.value < 0.7, sorted(sys.modules.keys() & set({HEAVY!r})))"
    )
    assert python(elsewhere, code, tmp_path) == "True []"


def test_the_command_fits_the_example(elsewhere: Path, tmp_path: Path) -> None:
    document = json.loads(run(elsewhere / "scalerl", "fit", "--example", "scalerl-8b", "--json", cwd=tmp_path))
    assert 0.6 < document["ceiling"]["value"] < 0.7
    assert {"exponent", "midpoint", "floor", "forecast", "decision", "diagnostics", "window", "points"} <= set(document)
    assert list(tmp_path.iterdir()) == []


def test_the_package_carries_its_types_data_and_licence(elsewhere: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.resources import files; from importlib.metadata import metadata;"
        "root = files('scalerl'); data = root / 'readers' / 'data';"
        "about = metadata('scalerl');"
        "print((root / 'py.typed').is_file(), (data / 'README.md').is_file(), about['License-Expression'])"
    )
    assert python(elsewhere, code, tmp_path) == "True True Apache-2.0"
