"""The Content-Security-Policy of a page: exactly its own scripts may run, nothing comes from anywhere else.

Used by `page` and `study_page`, which write it into the page, and by the server, which sends it with the page as well.
The hashes of the scripts stand in the policy, so that a script which somebody manages to write into the page by way of
a name in a log would not run, even if escaping it had been forgotten somewhere.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html.parser import HTMLParser


def written_policy(scripts: Iterable[str], *, live: bool = False) -> str:
    """For a `meta` element. Styles may be inline (plotly sets some); a live page may ask the server it came from.

    Scripts that the page makes itself from what it holds, such as the plotly.js that it unpacks, count too.
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in dict.fromkeys(scripts)) or "'none'"
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"{policy}; connect-src 'self'" if live else policy


def policy_of(page: str) -> str:
    """For the header of a live page; only there can a policy forbid frames."""
    found = _Scripts()
    found.feed(page)
    return f"{written_policy(found.scripts, live=True)}; frame-ancestors 'none'"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


class _Scripts(HTMLParser):
    """The text of every inline script that is one (a block of JSON is not)."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("type") or "text/javascript"
        if tag == "script" and kind in {"text/javascript", "module"}:
            self._inside = True
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data
