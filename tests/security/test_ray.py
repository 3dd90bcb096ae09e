"""A Ray cluster of our own: nobody from outside can reach it, and nobody else on the machine has its password."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

pytest.importorskip("ray")

from scalerl.pipeline.launch.ray.cluster import Cluster

from .listening import addresses_of, descendants


@pytest.mark.filterwarnings("ignore")  # of Ray, about its own ways
def test_it_listens_on_the_loopback_interface_alone_and_asks_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    before = addresses_of([os.getpid()])
    cluster = Cluster.connect(None, [{"CPU": 1}])
    try:
        assert cluster.own_address() == "127.0.0.1"
        ray.get(ray.remote(lambda: 1).remote())  # a worker has started and listens too
        opened = addresses_of([os.getpid(), *descendants(os.getpid())]) - before
        assert len(opened) >= 4
        assert {host.removeprefix("::ffff:") for host, _ in opened} == {"127.0.0.1"}
        assert os.environ["RAY_AUTH_MODE"] == "token"
        token = Path.home() / ".ray" / "auth_token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
    finally:
        cluster.close()
