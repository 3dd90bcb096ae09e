"""Everything that is said to Ray: connect, place actors, call them, notice that they died. No other file imports it.

Used on the side of the command and inside the trainer's actor, where it arrives by pickle. An actor is a plain class of
ours. Knows nothing about training.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from scalerl.errors import InputError, MissingDependencyError, ScaleRLError

Resources = Mapping[str, float]
"""What Ray calls them: CPU, GPU."""
Ref = Any
"""Of a value that is somewhere in the cluster, or will be."""
Actor = Any

_CONNECT_S = 5.0
_FREE_S = 30.0
"""How long one waits for what others in the cluster hold."""
_HOW_LONG = 120
"""Characters of Ray's reason that fit into one line."""
_DEATHS = {
    "worker process has died": "its process was killed or crashed",
    "node has died": "its node was lost",
    "node was terminated": "its node was lost",
    "was killed by `ray.kill": "it was ended",
    "due to the node running low on memory": "its node ran out of memory",
}
"""What Ray says at length, in short."""


class ActorLostError(ScaleRLError, RuntimeError):
    """An actor is gone, with what it held: killed, out of memory, or its node was lost."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how

    def __str__(self) -> str:
        return self.how


@dataclass(frozen=True)
class Node:
    """A machine of the cluster."""

    id: str
    address: str
    resources: Resources


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
            cpus = max(os.cpu_count() or 1, round(_sum(needs).get("CPU", 0)))
            options |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
        else:
            check_address(address)
            options |= {"address": address}
        try:
            ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            ray.shutdown()  # what had started already
            raise _refusal(address, error) from None
        return cls()

    def place(self, bundles: Sequence[Resources], notice: Callable[[str], None], patience_s: float = _FREE_S) -> None:
        """Reserve one bundle for each actor; `InputError` says what is missing."""
        from ray.util.placement_group import placement_group

        self._check_total(bundles)
        group = placement_group([dict(bundle) for bundle in bundles], strategy="PACK")
        if not group.wait(_CONNECT_S):
            notice(f"waiting for {_named(_sum(bundles))}: free are {_named(self.free(), like=_sum(bundles))}")
            if not group.wait(patience_s):
                self._remove(group)
                what = f"no room in the cluster for {len(bundles)} actors ({_named(_sum(bundles))} in all)"
                per_node = "; ".join(_named(node.resources, like=_sum(bundles)) for node in self.nodes())
                allowed = f"what is free: {_named(self.free(), like=_sum(bundles))}; nodes have {per_node}"
                raise InputError(what, allowed=allowed)
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
            raise ActorLostError(_first_line(error)) from None

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

    def _check_total(self, bundles: Sequence[Resources]) -> None:
        """Said at once: nobody would ever free what is not there."""
        has, needed = _ray().cluster_resources(), _sum(bundles)
        missing = {name: amount - has.get(name, 0) for name, amount in needed.items() if amount > has.get(name, 0)}
        if missing:
            what = f"the cluster is {_named(missing)} short of {len(bundles)} actors, which need {_named(needed)}"
            raise InputError(what, allowed=f"at most what it has, {_named(has, like=needed)}")

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


def check_address(address: str | None) -> None:
    """Is Ray installed, and does somebody answer? Needs neither torch nor a connection; Ray would try for a minute."""
    _ray()
    if address is None or address == "auto":
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdigit():
        raise InputError("--address", address, "auto, or HOST:PORT of the head node (ray:// clients cannot train)")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"no Ray cluster answers ({reason})", address, "HOST:PORT of a head node that runs") from None


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
    return InputError(f"Ray does not start ({_first_line(error)})", address, "a working installation of Ray")


def _sum(bundles: Sequence[Resources]) -> dict[str, float]:
    names = sorted({name for bundle in bundles for name in bundle})
    sums = {name: sum(bundle.get(name, 0) for bundle in bundles) for name in names}
    return {name: amount for name, amount in sums.items() if amount}


def _named(resources: Resources, like: Resources | None = None) -> str:
    """`3 CPU, 2 GPU`; `like`: only what is in there."""
    names = resources if like is None else like
    return ", ".join(f"{resources.get(name, 0):g} {name}" for name in names) or "nothing"


def _first_line(error: Exception) -> str:
    """Ray explains at length: in our words where they are known, otherwise its first line."""
    text = str(error)
    for sign, meaning in _DEATHS.items():
        if sign in text:
            return meaning
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= _HOW_LONG else line[: _HOW_LONG - 3] + "..."
