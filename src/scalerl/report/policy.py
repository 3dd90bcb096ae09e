"""The Content-Security-Policy of a page, made from the page itself: exactly its own scripts may run, nothing else.

Used by the server. The hashes of the inline scripts stand in the policy, so that a script which somebody manages to
write into the page by way of a name in a log would not run, even if escaping it had been forgotten somewhere.
"""

from __future__ import annotations

import base64
import hashlib
from html.parser import HTMLParser


def policy_of(page: str) -> str:
    """Styles may be inline (plotly sets some), data comes from our own server, and nothing from anywhere else."""
    found = _Scripts()
    found.feed(page)
    scripts = " ".join(f"'sha256-{_digest(script)}'" for script in dict.fromkeys(found.scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


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
