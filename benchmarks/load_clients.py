"""The browsers of `load_watch.py` and `load_metrics.py`, all in one process of their own, without a screen.

    python benchmarks/load_clients.py PORT COUNT

Each client does what the page does: it opens the event stream, loads the whole document, and takes every message. JSON
is not parsed, which fifty browsers would do on fifty machines: a point is seen when its compute, a number that occurs
nowhere else, comes over the wire. Commands are lines on standard input, answers are lines on standard output:

    mark TEXT      -> {"seconds": [...]}: the time (CLOCK_MONOTONIC, the same in all processes) at which each saw it
    stall COUNT    further clients that ask for everything and never read it
    vanish COUNT   further clients that break off in the middle
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time

CHUNK = 1 << 16


class Crowd:
    """All clients."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._wanted = b""
        self._seen: dict[int, float] = {}
        self._changed = asyncio.Condition()
        self._stalled: list[asyncio.StreamWriter] = []
        self.bytes = 0

    async def follow(self, number: int) -> None:
        """One client, for as long as the server lives."""
        reader, events = await self._ask("/events")
        document, loading = await self._ask("/document.json", packed=True)
        while chunk := await document.read(CHUNK):
            self.bytes += len(chunk)
        loading.close()
        async with self._changed:
            self._seen[number] = 0.0  # ready
            self._changed.notify_all()
        rest = b""
        while chunk := await reader.read(CHUNK):
            self.bytes += len(chunk)
            rest += chunk
            if self._wanted and self._wanted in rest:
                async with self._changed:
                    self._seen.setdefault(number, time.monotonic())
                    self._changed.notify_all()
            rest = rest[-len(self._wanted) - 1 :]
        events.close()
        raise SystemExit(f"client {number} was left alone")

    async def all_have(self, count: int) -> list[float]:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._seen) >= count)
            found, self._seen = list(self._seen.values()), {}
        return found

    def want(self, text: str) -> None:
        self._wanted, self._seen = text.encode(), {}

    async def stall(self, count: int) -> None:
        """They take the place of a document that is never read: the server's writes come to a halt."""
        for _ in range(count):
            for path in ("/events", "/document.json"):
                _, writer = await self._ask(path, small=True)
                self._stalled.append(writer)

    async def vanish(self, count: int) -> None:
        for _ in range(count):
            for path in ("/events", "/document.json"):
                reader, writer = await self._ask(path)
                await reader.read(100)
                writer.transport.abort()

    async def _ask(
        self, path: str, *, packed: bool = False, small: bool = False
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        plug = socket.socket()
        if small:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plug.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plug, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=plug, limit=CHUNK)
        accept = "Accept-Encoding: gzip\r\n" if packed else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{accept}\r\n".encode())
        await writer.drain()
        return reader, writer


async def main(port: int, count: int) -> None:
    crowd = Crowd(port)
    clients = [asyncio.create_task(crowd.follow(number)) for number in range(count)]
    await crowd.all_have(count)
    say({"ready": count})
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        word, _, rest = line.decode().strip().partition(" ")
        if word == "mark":
            crowd.want(rest)
            say({"marked": rest})
            say({"seconds": await crowd.all_have(count), "bytes": crowd.bytes})
        elif word == "stall":
            await crowd.stall(int(rest))
            say({"stalled": int(rest)})
        elif word == "vanish":
            await crowd.vanish(int(rest))
            say({"vanished": int(rest)})
    for client in clients:
        client.cancel()


def say(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
