"""What the tests of this folder share: processes to kill, and runs that nobody has touched."""

from __future__ import annotations

import sys

import pytest

from . import kills
from .nursery import Nursery
from .small import Small

if not sys.platform.startswith("linux"):
    pytest.skip("processes are watched the way Linux shows them", allow_module_level=True)


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Nursery:
    return Nursery(tmp_path_factory.mktemp("nursery"))


@pytest.fixture(scope="session")
def inline(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> kills.Ground:
    """An undisturbed run in one process: what every other must be equal to."""
    return kills.undisturbed(nursery, tmp_path_factory.mktemp("inline"), Small())


@pytest.fixture(scope="session")
def local(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> kills.Ground:
    """An undisturbed run in two processes."""
    return kills.undisturbed(nursery, tmp_path_factory.mktemp("local"), Small("local"))
