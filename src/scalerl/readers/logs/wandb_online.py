"""Runs on a Weights & Biases server, through its own client: `wandb:ENTITY/PROJECT/RUN_ID`, or the address of the page.

Called by `open`. Imports wandb inside a function. The client finds the login (`wandb login`, WANDB_API_KEY), the server
(WANDB_BASE_URL) and, when the entity is left out, the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scalerl.errors import InputError, MissingDependencyError
from scalerl.readers.logs.records import Record, Tally
from scalerl.readers.logs.wandb_values import to_records

_PREFIX = "wandb:"
_PAGE = re.compile(r"https?://(?:www\.)?wandb\.ai/(?P<project>[^/?#]+/[^/?#]+)/runs/(?P<run>[^/?#]+)(?:[/?#].*)?")
_ALLOWED = "wandb:ENTITY/PROJECT/RUN_ID, wandb:PROJECT/RUN_ID, or https://wandb.ai/ENTITY/PROJECT/runs/RUN_ID"


def is_wandb_address(text: str) -> bool:
    """Whether this is meant to be a run on a server, rather than a file."""
    return text.startswith((_PREFIX, "https://wandb.ai/", "http://wandb.ai/", "https://www.wandb.ai/"))


class WandbOnlineLog:
    """One run on a server. Every pass over it asks the server again."""

    kind = "W&B run"

    def __init__(self, address: str) -> None:
        self.label = address
        self._path = _path(address)

    @property
    def name(self) -> str | None:
        with self._in_one_line():
            return str(self._run().name) or None

    def records(self, tally: Tally) -> Iterator[Record]:  # noqa: ARG002
        """Nothing is ever skipped: the server sends whole rows or none."""
        with self._in_one_line():
            yield from to_records(self._run().scan_history())

    def _run(self) -> Any:
        return _client().Api().run(self._path)

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        """wandb's errors are of many kinds; what they say first is what a user needs."""
        errors = _client().errors
        from requests.exceptions import RequestException  # comes with wandb

        try:
            yield
        except errors.UsageError as error:
            allowed = "`wandb login`, or WANDB_API_KEY" if "API key" in str(error) else None
            raise InputError(f"W&B refuses ({_first_line(error)})", allowed=allowed, where=self.label) from None
        except errors.AuthenticationError as error:
            raise InputError(f"no access to W&B ({_first_line(error)})", where=self.label) from None
        except (errors.Error, RequestException, OSError, ValueError) as error:
            raise InputError(f"the run cannot be read from W&B ({_first_line(error)})", where=self.label) from None


def _path(address: str) -> str:
    page = _PAGE.fullmatch(address)
    path = f"{page['project']}/{page['run']}" if page else address.removeprefix(_PREFIX)
    if "://" in path or path.count("/") not in {1, 2} or not all(path.split("/")):
        raise InputError("not the address of a W&B run", address, _ALLOWED)
    return path


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _client() -> Any:
    try:
        import wandb
    except ImportError:
        raise MissingDependencyError("wandb", "wandb") from None
    return wandb
