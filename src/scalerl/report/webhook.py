"""Tells a web address when a decision has changed: one POST of JSON, three tries, and never in the way of the watching.

Used by `scalerl watch --webhook`. It runs in a thread of its own. What a decision is comes in as plain values.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPErrorProcessor, Request, build_opener

from scalerl import __version__
from scalerl.errors import InputError

TIMEOUT_S = 5.0
TRIES = 3
PAUSE_S = 1.0
"""Before the second try; twice as long before the third."""
LAST_WORDS_S = 20.0
"""How long the end of the program waits for what has not been told yet."""


class Webhook:
    """One address. `tell` returns at once; failures go to `note` as one line."""

    def __init__(self, url: str, note: Callable[[str], None], pause_s: float = PAUSE_S) -> None:
        self._url, self._note, self._pause_s = checked(url), note, pause_s
        self._waiting: queue.Queue[bytes | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def tell(self, message: Mapping[str, Any]) -> None:
        self._waiting.put(json.dumps(message, allow_nan=False).encode())

    def close(self) -> None:
        """Wait, though not for ever, until everything is told."""
        self._waiting.put(None)
        self._thread.join(LAST_WORDS_S)

    def _work(self) -> None:
        while (body := self._waiting.get()) is not None:
            self._try(body)

    def _try(self, body: bytes) -> None:
        reason = ""
        for attempt in range(TRIES):
            time.sleep(attempt * self._pause_s)
            reason = self._post(body)
            if not reason:
                return
        self._note(f"the webhook was not told, {TRIES} tries: {reason}")

    def _post(self, body: bytes) -> str:
        """Why it failed; empty when it did not."""
        headers = {"Content-Type": "application/json", "User-Agent": f"scalerl/{__version__}"}
        request = Request(self._url, body, headers, method="POST")  # noqa: S310 (the scheme is checked)
        try:
            with build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
                status = answer.status
        except HTTPError as error:
            return f"the server answered {error.code}"
        except OSError as error:
            return str(getattr(error, "reason", None) or error) or type(error).__name__
        except (HTTPException, ValueError) as error:  # may quote the address, whose path is a key
            return type(error).__name__
        return "" if status < 300 else f"the server answered {status}"


class _NoRedirect(HTTPErrorProcessor):
    """The address that was given is the one that is told; a redirect could lead anywhere."""

    def http_response(self, request: Request, response: Any) -> Any:
        del request
        return response

    https_response = http_response


def checked(url: str) -> str:
    """A web address, or `InputError`, which does not repeat it: whoever knows the address can use it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise InputError("--webhook", "*" * len(url), "an http or https address")
    return url
