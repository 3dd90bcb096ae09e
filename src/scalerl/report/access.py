"""Who may look at the watch page, and on which address and port it can be served. Used by `server` and `scalerl watch`.

Everybody on this machine may, by default: the server listens on the loopback address. On any other address, and
wherever a token is set, a request must carry the token, in the address once and in a cookie afterwards. The `Host` must
be a name of this machine, so that a web page cannot reach us by making its own name point here (DNS rebinding). Nothing
is known here about requests as such.
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
import socket
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from scalerl.errors import InputError


@dataclass(frozen=True)
class Access:
    """Who may look."""

    host: str
    """The address to listen on."""
    token: str | None = None

    def knows(self, given: str | None) -> bool:
        """Whether this is the token; takes as long for a nearly right one as for any."""
        if self.token is None:
            return True
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def welcomes(self, header: str | None) -> bool:
        """Whether `Host` names this machine. An address in numbers cannot be made to point elsewhere."""
        try:
            name = (urlsplit(f"//{header}").hostname or "") if header else ""
        except ValueError:  # brackets that do not close
            return False
        if name in {"localhost", self.host.lower()} or is_loopback(name):
            return True
        if is_loopback(self.host):
            return False
        return _is_address(name) or name in _machine_names()


@cache
def _machine_names() -> frozenset[str]:
    """Asked for once: the full name may take a while to find."""
    return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})


def is_loopback(host: str) -> bool:
    """Reachable from this machine only."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def bind_address(host: str, port: int) -> tuple[str, int]:
    """Refuse what cannot be listened on, in one line; a port in use with the next one that is free."""
    try:
        _try(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise InputError(f"cannot listen on {host}, port {port} ({error.strerror})", where="--host") from None
        free = next((other for other in range(port + 1, min(port + 100, 65536)) if _is_free(host, other)), 0)
        allowed = f"a free one, such as --port {free}" if free else "a free one: --port 0 takes any"
        raise InputError("the port is in use", port, allowed, "--port") from None
    return host, port


def _is_free(host: str, port: int) -> bool:
    try:
        _try(host, port)
    except OSError:
        return False
    return True


def _try(host: str, port: int) -> None:
    with socket.socket(family(host), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        probe.listen(1)


def family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
