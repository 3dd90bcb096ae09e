"""`scalerl watch`: a page on this machine that follows running jobs, and an end with an exit code for scripts.

Called by the typer application. It turns options into ways of reading and fitting and hands them to the report, which
follows and serves; the life of the whole is in `watching`.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scalerl.cli import checks, options, places, sources
from scalerl.cli.output import Outcome
from scalerl.errors import InputError

if TYPE_CHECKING:
    from scalerl.cli.checks import Fitting, Reading
    from scalerl.cli.places import Place
    from scalerl.curves import Fit
    from scalerl.report.access import Access
    from scalerl.report.answers import Document
    from scalerl.report.board import Board
    from scalerl.report.followed import Ways
    from scalerl.series import Series

LARGE_BYTES = 1 << 26
"""A log beyond this is not read once more, only to check names."""
SHORTEST_TOKEN = 8


def watch(
    targets: options.Watched = None,
    x: options.X = None,
    y: options.Y = None,
    n: options.N = None,
    by: options.By = None,
    duplicates: options.Repeats = None,
    bounds: options.Bounds = "0,1",
    gpus: options.Gpus = None,
    params: options.Params = None,
    gpu_hours_per_step: options.GpuHoursPerStep = None,
    restarts: options.RestartsName = "replace",
    start: options.From = None,
    until: options.Until = None,
    floor: options.Floor = None,
    ceiling: options.Ceiling = None,
    law: options.LawName = "sigmoid",
    level: options.Level = "0.8",
    budget: options.Budget = None,
    target: options.Targets = None,
    delta: options.Delta = None,
    host: options.Host = "127.0.0.1",
    port: options.Port = "8265",
    token: options.Token = None,
    every: options.Every = "1",
    no_page: options.NoPage = False,
    open_page: options.OpenPage = False,
    until_decided: options.UntilDecided = False,
    timeout: options.Timeout = None,
    webhook: options.WebhookUrl = None,
) -> Outcome:
    """Follow running jobs on a live page: curves, forecast, decision, and how the forecast has moved."""
    limits = checks.bounds(bounds)
    log = checks.log_options(gpus, params, gpu_hours_per_step, restarts)
    reading = checks.reading(targets, None, (x, y, n, by), duplicates, limits, log)
    fitting = checks.fitting((start, until), floor, ceiling, law, "varpro", level, limits)
    asked = None if budget is None else places.budget(budget)
    values = tuple(checks.finite("--target", text, limits) for text in target or ())
    smallest_gain = None if delta is None else checks.positive("--delta", delta)
    every_s = checks.positive("--every", every)
    timeout_s = None if timeout is None else checks.positive("--timeout", timeout)
    access, port_number = _access(host, token), _port(port)
    given = {
        "--x": x, "--y": y, "--n": n, "--by": by, "--duplicates": duplicates, "--bounds": bounds, "--gpus": gpus,
        "--params": params, "--gpu-hours-per-step": gpu_hours_per_step, "--from": start, "--until": until,
        "--floor": floor, "--ceiling": ceiling, "--law": law, "--level": level, "--budget": budget, "--delta": delta,
    }  # fmt: skip
    board = _board(reading.files, _command(reading.files, given), fitting.level)
    ways = _ways(reading, fitting, asked, values, smallest_gain)
    served = _served(board, None if no_page else access, port_number, open_page=open_page)
    return _watch(reading, ways, board, served, (webhook, every_s, timeout_s), until_decided=until_decided)


def _watch(
    reading: Reading,
    ways: Ways,
    board: Board,
    served: AbstractContextManager[None],
    settings: tuple[str | None, float, float | None],
    *,
    until_decided: bool,
) -> Outcome:
    """Everything is checked: follow, serve and tell until it is over. `settings`: webhook, seconds between looks and
    in all."""
    from scalerl.cli.watching import Watching, told
    from scalerl.report.follow import Follower
    from scalerl.report.targets import Targets

    webhook, every_s, timeout_s = settings
    followed = Targets(reading.files)
    _refuse_unknown_names(reading, ways)
    with told(webhook) as news, served:
        follower = Follower(followed, ways, board, every_s=every_s, changed=news.changed, troubled=news.troubled)
        watching = Watching(follower, until_decided, timeout_s)
        watching.run()
    text, code = watching.result()
    return Outcome(text, code=code)


def _refuse_unknown_names(reading: Reading, ways: Ways) -> None:
    """A column or metric that a target does not have is a mistake to mend now, not something to wait for."""
    if reading.x is reading.y is reading.n is reading.by is None:
        return
    for name in reading.files:
        if Path(name).is_file() and Path(name).stat().st_size < LARGE_BYTES:
            try:
                ways.read(name)
            except InputError as error:
                if error.what.startswith("unknown "):
                    raise


def _access(host: str, token: str | None) -> Access:
    """An address that others can reach gets a token, given or made."""
    from scalerl.report.access import Access, is_loopback

    if token is not None and not (len(token) >= SHORTEST_TOKEN and token.isascii() and token.isprintable()):
        raise InputError("--token", "*" * len(token), f"{SHORTEST_TOKEN} or more printable ASCII characters")
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(16)
    return Access(host, token)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 65536):
        raise InputError("--port", text, "0 to 65535; 0 takes any free one")
    return int(text)


def _command(files: Sequence[str], given: dict[str, str | None]) -> str:
    """What was asked, without what only this machine needs to know (address, token, webhook)."""
    defaults = {"--bounds": "0,1", "--law": "sigmoid", "--level": "0.8"}
    words = [
        word
        for option, value in given.items()
        if value is not None and value != defaults.get(option)
        for word in (option, value)
    ]
    return shlex.join(["scalerl", "watch", *files, *words])


def _board(files: Sequence[str], command: str, level: float) -> Board:
    from scalerl.report.board import Board
    from scalerl.report.document import report_document

    title = f"watching {files[0]}" if len(files) == 1 else f"watching {len(files)} targets"
    whole = report_document([], None, title=title, command=command, level=level)
    return Board({key: value for key, value in whole.items() if key not in {"runs", "comparison"}})


def _ways(
    reading: Reading, fitting: Fitting, asked: Place | None, targets: tuple[float, ...], delta: float | None
) -> Ways:
    from scalerl.readers import read_curves
    from scalerl.readers.run_directory import VALUE
    from scalerl.report.followed import Ways
    from scalerl.report.own_run import other_units
    from scalerl.report.set_documents import set_documents

    def fit(name: str, seeds: Sequence[Series]) -> Fit:
        (made,) = sources.fit_all(sources.Curves({name: list(seeds)}), fitting)
        return made

    def units(path: str, present: str) -> dict[str, Series]:
        return other_units(path, present, y=reading.y, n=reading.n, bounds=reading.bounds)

    def sets(path: str) -> Sequence[Document]:
        if reading.y not in {None, VALUE}:
            return ()
        return set_documents(Path(path), fit, fitting.level, reading.bounds)

    return Ways(
        read=lambda path: read_curves([path], **reading.options()),
        units=units,
        fit=fit,
        budget=lambda last: None if asked is None else places.amount(asked, last),
        delta=delta,
        targets=targets,
        sets=sets,
    )


@contextmanager
def _served(board: Board, access: Access | None, port: int, *, open_page: bool) -> Iterator[None]:
    """The page, while the body runs; no access, no page."""
    if access is None:
        yield
        return
    from scalerl.cli.watching import note
    from scalerl.report.page import live_page
    from scalerl.report.server import PageServer

    server = PageServer(board, live_page(str(board.head["title"])), access, port)
    server.start()
    note(f"watching at {server.url} (Ctrl-C ends it)")
    if open_page:
        import webbrowser

        webbrowser.open(server.url)
    try:
        yield
    finally:
        server.stop()
