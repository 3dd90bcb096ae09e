"""The buffer between generator and trainer: slots, and what a checkpoint needs to know of them.

Filled and emptied by the launchers, from any thread. Slots, order and ages are in `slots`, which needs no torch; here
their state becomes a snapshot and back.
"""

from __future__ import annotations

from scalerl.errors import InputError
from scalerl.pipeline.packing import pack_groups, request_from_json, request_to_json, unpack_groups
from scalerl.pipeline.slots import ClosedError, OrderError, Slots, StalenessError
from scalerl.pipeline.types import Group, GroupRequest, Snapshot

__all__ = ["Buffer", "ClosedError", "OrderError", "StalenessError"]


class Buffer(Slots[GroupRequest, Group]):
    """Groups admitted and not yet trained, as a run has them."""

    def snapshot(self) -> Snapshot:
        """Everything but the waiters. A batch that is taken and not yet trained comes again after `restore`."""
        with self._changed:
            packed = pack_groups(list(self._groups.values()))
            state = {
                "version": self._version,
                "admitted": self._admitted,
                "ended": self._ended,
                "requests": [request_to_json(request) for request in self._requests.values()],
            }
            return Snapshot({**self._settings(), **state, **packed.values}, packed.tensors)

    def restore(self, snapshot: Snapshot) -> None:
        """Take over the state of a buffer with the same schedule; `outstanding` must be requested again."""
        values = snapshot.values
        for name, own in self._settings().items():
            if values.get(name) != own:
                raise InputError(f"saved buffer of another run: its {name}", values.get(name), str(own))
        groups = {group.request.index: group for group in unpack_groups(snapshot)}
        requests = {item["index"]: request_from_json(item) for item in values["requests"]}
        with self._changed:
            self._version, self._admitted, self._ended = values["version"], values["admitted"], values["ended"]
            self._requests, self._groups, self._taken = requests, groups, False
            self._changed.notify_all()

    def _settings(self) -> dict[str, int]:
        return {"ahead": self._schedule.ahead, "stride": self._schedule.stride, "prompts": self._prompts}
