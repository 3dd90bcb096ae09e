"""Everything that is said to Ray: connect, place actors, call them, notice that they died. No other file imports it.

Used on the side of the command and inside the trainer's actor, where it arrives by pickle. An actor is a plain class of
ours. Knows nothing about training.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from scalerl.errors import InputError, MissingDependencyError, ScaleRLError
from scalerl.pipeline.launch.ray.room import Node, check_room, nodes_free, short
from scalerl.pipeline.launch.ray.words import Resources, named, reason_of, total

Ref = Any
"""Of a value that is somewhere in the cluster, or will be."""
Actor = Any

_CONNECT_S = 5.0
FREE_S = 10.0
"""How long one waits for what others in the cluster hold, unless asked for more patience."""
_QUIET_S = 1.0
"""Of that time, before it is said what is waited for: places usually come at once."""
_ANSWER_S = 10.0
_ASK = """
import sys
from contextlib import suppress
from ray._private.services import canonicalize_bootstrap_address
from ray._raylet import GcsClient
if sys.argv[1] == "auto":
    with suppress(ImportError):  # as ray.init does, where Ray knows tokens
        from ray._private.authentication import authentication_token_setup as setup
        setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
print(flush=True)
GcsClient(address=canonicalize_bootstrap_address(sys.argv[1]))
"""
"""A program that ends well if a head node answers; it writes a line when it begins to ask, which may take a while."""


class ActorLostError(ScaleRLError, RuntimeError):
    """An actor is gone, with what it held: killed, out of memory, or its node was lost."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how

    def __str__(self) -> str:
        return self.how


class ActorRefusedError(ActorLostError):
    """An actor that cannot begin where it was put: a package is missing there, or another version of it."""


class Cluster:
    """A connection, and a placement group with one bundle of resources for each actor."""

    def __init__(self, group: Any = None) -> None:
        self._group = group

    @classmethod
    def connect(cls, address: str | None, needs: Sequence[Resources]) -> Cluster:
        """`address` None: a cluster of its own on this machine, with as many CPUs as are needed."""
        ray = _ray()
        logging.getLogger("ray").setLevel(logging.ERROR)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if address is None:
            cpus = max(os.cpu_count() or 1, round(total(needs).get("CPU", 0)))
            options |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
            os.environ.setdefault("RAY_worker_niceness", "0")  # else actors stand back behind everything here, by 15
        else:
            check_address(address)
            options |= {"address": address}
        try:
            with _on_loopback() if address is None else nullcontext():
                ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            ray.shutdown()  # what had started already
            raise _refusal(address, error) from None
        _keep_token_private()
        return cls()

    def place(
        self, bundles: Sequence[Resources], notice: Callable[[str], None], patience_s: float | None = None
    ) -> None:
        """Reserve one bundle for each actor; `InputError` says what is missing. What no node has is said at once, what
        others hold is waited for. `patience_s`: wait so long, also for nodes that may still join."""
        from ray.util.placement_group import placement_group

        if patience_s is None:
            check_room(bundles, self.nodes())
        wait_s = FREE_S if patience_s is None else patience_s
        group = placement_group([dict(bundle) for bundle in bundles], strategy="PACK")
        if not group.wait(min(_QUIET_S, wait_s)):
            notice(f"waiting up to {wait_s:g} s for {self._lack(bundles)}")
            if not group.wait(max(0.0, wait_s - _QUIET_S)):
                self._remove(group)
                check_room(bundles, self.nodes())
                raise self._no_room(bundles, wait_s)
        self._group = group

    def start(self, kind: type, args: tuple[Any, ...], bundle: int, concurrency: int) -> Actor:
        """An actor in a bundle; it comes into being when there is room. `Ref`s among `args` arrive as their values."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        resources = self._group.bundle_specs[bundle]
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)
        options = {
            "num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0), "max_restarts": 0,
            "max_concurrency": concurrency, "scheduling_strategy": strategy,
        }  # fmt: skip
        return _ray().remote(kind).options(**options).remote(*args)

    def call(self, actor: Actor, method: str, *args: Any) -> Ref:
        """`Ref`s among `args` arrive as their values."""
        return getattr(actor, method).remote(*args)

    def put(self, value: Any) -> Ref:
        """A value for others to fetch, straight from this process's machine."""
        return _ray().put(value)

    def wait(self, refs: Sequence[Ref], timeout_s: float) -> list[Ref]:
        """Those that are there, at least one unless time is up."""
        ready, _ = _ray().wait(list(refs), num_returns=1, timeout=timeout_s)
        return list(ready)

    def get(self, ref: Ref) -> Any:
        """The value, waiting for it; `ActorLostError` if whoever was to make it is gone."""
        from ray import exceptions

        try:
            return _ray().get(ref)
        except exceptions.RayTaskError:
            raise  # a bug of ours in an actor: they catch what they expect
        except exceptions.RayError as error:
            never_began = getattr(error, "_actor_init_failed", False)
            raise (ActorRefusedError if never_began else ActorLostError)(reason_of(error)) from None

    def kill(self, actor: Actor) -> None:
        """At once; it may be dead already."""
        with suppress(ValueError, RuntimeError):
            _ray().kill(actor)

    def free(self) -> Resources:
        return dict(_ray().available_resources())

    def nodes(self) -> list[Node]:
        """Those that are alive."""
        return [
            Node(node["NodeID"], node["NodeManagerAddress"], node["Resources"])
            for node in _ray().nodes() if node["Alive"]
        ]  # fmt: skip

    def ask_every_node(self, kind: type, method: str) -> dict[str, Any]:
        """What an actor of this kind answers on each node; an `ActorLostError` instead where it cannot start."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = _ray().remote(kind)
        refs = {}
        for node in self.nodes():
            strategy = NodeAffinitySchedulingStrategy(node.id, soft=False)
            actor = remote.options(num_cpus=0, scheduling_strategy=strategy).remote()
            refs[node.address] = (actor, self.call(actor, method))  # an actor without a handle would be ended
        return {address: self._answer(ref) for address, (_, ref) in refs.items()}

    def _answer(self, ref: Ref) -> Any:
        try:
            return self.get(ref)
        except ActorLostError as error:
            return error

    def own_address(self) -> str:
        """Of this process's machine, as the other machines of the cluster know it."""
        address: str = _ray().util.get_node_ip_address()
        return address

    def close(self) -> None:
        """Give everything back, and end a cluster of our own."""
        if self._group is not None:
            self._remove(self._group)
            self._group = None
        _ray().shutdown()

    def __reduce__(self) -> tuple[type[Cluster], tuple[Any]]:
        return Cluster, (self._group,)

    def _lack(self, bundles: Sequence[Resources]) -> str:
        needed, free = total(bundles), self.free()
        missing = short(needed, free)
        what = f"{named(missing)} more" if missing else "another share between the nodes"
        return f"{what}: needed are {named(needed)}, free are {named(free, like=needed)}"

    def _no_room(self, bundles: Sequence[Resources], waited_s: float) -> InputError:
        needed, free = total(bundles), self.free()
        what = f"no room in the cluster for {len(bundles)} actors ({named(needed)} in all) within {waited_s:g} s"
        if missing := short(needed, free):
            what += f", {named(missing)} missing"
        each = nodes_free(self.nodes(), self._free_by_node(), needed)
        longer = "--patience waits longer for what others hold"
        return InputError(what, allowed=f"what is free: {named(free, like=needed)} ({each}); {longer}")

    def _free_by_node(self) -> dict[str, Resources]:
        state: Any = import_module("ray._private.state")
        return dict(state.available_resources_per_node())

    def _remove(self, group: Any) -> None:
        from ray.util.placement_group import remove_placement_group

        with suppress(RuntimeError, ValueError):
            remove_placement_group(group)


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingDependencyError("ray", "ray") from None
    return ray


@contextmanager
def _on_loopback() -> Iterator[None]:
    """A cluster that is started inside listens on the loopback interface alone, as Ray's own does on macOS and Windows;
    elsewhere it listens on all interfaces and cannot be told otherwise: it takes 127.0.0.1 for a mistake."""
    constants: Any = import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _keep_token_private() -> None:
    """Ray keeps the password of its clusters in the user's home, readable for everybody who may look into that."""
    with suppress(OSError, RuntimeError):
        (Path.home() / ".ray" / "auth_token").chmod(0o600)


def check_address(address: str | None) -> None:
    """Is Ray installed, and does a head node answer? Needs no torch; Ray itself would try for minutes."""
    _ray()
    if address is None:
        return
    if address != "auto":
        _check_port(address)
    _check_head(address)


def _check_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError("--address", address, "auto, or HOST:PORT of the head node (ray:// clients cannot train)")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"no Ray cluster answers ({reason})", address, "HOST:PORT of a head node that runs") from None


def _check_head(address: str) -> None:
    """Asked by a process of its own, which can be ended: anything may listen there, and Ray prints every try."""
    words = [sys.executable, "-c", _ASK, address]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:  # noqa: S603  # ours, no shell
        assert asking.stdout is not None
        asking.stdout.readline()
        said = None
        with suppress(subprocess.TimeoutExpired):
            said = asking.communicate(timeout=_ANSWER_S)[1]
        asking.kill()
    if asking.returncode == 0:
        return
    why = "what listens there is no head node"
    if said is None:
        why = f"what listens there said nothing that Ray knows in {_ANSWER_S:g} s"
    elif "ConnectionError: Could not find" in said:
        raise _refusal(address, ConnectionError())
    elif "uthenticat" in said:
        allowed = "RAY_AUTH_MODE=token, with the right one in RAY_AUTH_TOKEN or ~/.ray/auth_token"
        raise InputError("the Ray cluster asks for a token and got none or another one", address, allowed)
    raise InputError(f"no Ray cluster answers ({why})", address, "HOST:PORT of a head node that runs")


def _refusal(address: str | None, error: Exception) -> InputError:
    text = str(error)
    if "ersion mismatch" in text:
        lines = " ".join(line.strip() for line in text.splitlines() if line.strip())
        return InputError(
            f"Ray or Python of the cluster differ from those here ({lines})", address, "the same versions"
        )
    if isinstance(error, ConnectionError):
        allowed = "a cluster that runs (ray start --head), or no --address for one of its own"
        return InputError("no Ray cluster was found", address, allowed)
    return InputError(f"Ray does not start ({reason_of(error)})", address, "a working installation of Ray")
