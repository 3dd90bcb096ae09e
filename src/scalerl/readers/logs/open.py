"""Which format a path is: recognised by content, files and folders alike. What is ambiguous is an error with a list.

Called by `readers.curves`. Each format knows how to recognise itself; only the order of asking is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scalerl.errors import InputError
from scalerl.readers.logs.console import ConsoleLog, find_console_log, is_console_log
from scalerl.readers.logs.csv_log import CsvLog, head_rows, is_csv_log
from scalerl.readers.logs.hugging_face import (
    TrainerStateLog,
    find_trainer_states,
    is_trainer_state,
    trainer_state_log,
)
from scalerl.readers.logs.json_log import JsonLog, head_objects, is_json_log
from scalerl.readers.logs.mlflow_database import MlflowDatabaseLog, database_runs, is_mlflow_database
from scalerl.readers.logs.mlflow_files import MlflowLog, find_mlflow_runs
from scalerl.readers.logs.parquet_log import ParquetLog, is_parquet_log
from scalerl.readers.logs.records import Log, Tally
from scalerl.readers.logs.tensorboard import TensorBoardLog, find_event_logs, is_event_file
from scalerl.readers.logs.text_lines import head_lines
from scalerl.readers.logs.wandb_export import (
    HistoryLinesLog,
    HistoryTableLog,
    is_history_line,
    is_web_export,
    web_export_logs,
)
from scalerl.readers.logs.wandb_offline import WandbLog, find_wandb_logs, is_transaction_log
from scalerl.readers.logs.wandb_online import WandbOnlineLog, is_wandb_address
from scalerl.readers.run_directory import is_run_directory
from scalerl.readers.source import open_source

MOST_LISTED = 12
MOST_FILES = 200
"""Of a folder that are looked into when no trainer's own layout is found in it."""
RUN_MARK = "#"
"""`mlflow.db#RUN`: one run of a file that holds several."""


def find_logs(path: str | Path, *, tables_too: bool = False) -> list[Log] | None:
    """The logs behind a path: one, or several when one file holds several runs; None when it is a table of points.

    `tables_too` reads a plain table as a log as well: every column a metric.
    """
    label = str(path)
    if is_wandb_address(label):
        return [WandbOnlineLog(label)]
    if label == "-":
        return None
    place = Path(path)
    if is_folder(place):
        return [_in_folder(place, label)]
    file, mark, run = label.rpartition(RUN_MARK)
    if mark and not _exists(place) and _exists(Path(file)):
        return [_one_of(_in_file(Path(file), file, tables_too=False) or [], run, file)]
    return _in_file(place, label, tables_too=tables_too)


def log_name(path: str | Path) -> tuple[str, ...] | None:
    """The parts of an online run's address, from which a curve gets its name; None for a file."""
    label = str(path)
    return tuple(label.removeprefix("wandb:").rstrip("/").split("/")) if is_wandb_address(label) else None


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _in_file(path: Path, label: str, *, tables_too: bool) -> list[Log] | None:
    with open_source(label) as source:
        head = source.head
    if is_event_file(head):
        return [TensorBoardLog([path], label)]
    if is_transaction_log(head):
        return [WandbLog(path, label)]
    if is_mlflow_database(path):
        runs = database_runs(path, label)
        named = [f"{label}{RUN_MARK}{run.run_id}" for run in runs]
        return [MlflowDatabaseLog(path, run, name) for run, name in zip(runs, named, strict=True)]
    if head.startswith(b"PAR1"):
        return _in_parquet(path, label, tables_too=tables_too)
    if is_trainer_state(head):
        return [TrainerStateLog(path, label)]
    return _in_text(path, label, head, tables_too=tables_too)


def _in_parquet(path: Path, label: str, *, tables_too: bool) -> list[Log] | None:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        names = read_schema(path).names
    except (ArrowException, OSError, UnicodeDecodeError):
        return None  # the strict reader says what is wrong with it
    if is_history_line(dict.fromkeys(names)):
        return [HistoryTableLog(path, label)]
    return [ParquetLog(path, label)] if tables_too or is_parquet_log(path) else None


def _in_text(path: Path, label: str, head: bytes, *, tables_too: bool) -> list[Log] | None:
    if not head.strip() or b"\0" in head[:4096]:
        return None  # the strict reader says what is wrong with it
    objects = head_objects(head)
    if objects:
        if is_history_line(objects[0]):
            return [HistoryLinesLog(path, label)]
        return [JsonLog(path, label)] if tables_too or is_json_log(objects) else None
    header, rows = head_rows(head)
    if is_web_export(header):
        return web_export_logs(path, label)
    if is_console_log(head_lines(head)):
        return [ConsoleLog(path, label)]
    if is_csv_log(header, rows):
        return [CsvLog(path, label)]
    if len(header) < 2 or not rows:  # no table: perhaps a console with a long start before its first metric
        late = find_console_log(path, label)
        return None if late is None else [late]
    return [CsvLog(path, label, "a table")] if tables_too else None


def _in_folder(folder: Path, label: str) -> Log:
    """The one log of a folder, called as the user called the folder."""
    found = _by_layout(folder) or _by_content(folder)
    if len(found) > 1:  # some may hold no metric at all, such as the Trainer's hyperparameters
        found = {place: log for place, log in found.items() if next(log.records(Tally()), None) is not None} or found
    if not found:
        below = [str(place) for place in sorted(folder.iterdir()) if is_folder(place) and _is_run(place)]
        if below:
            listed = ", ".join(below[:MOST_LISTED]) + (", ..." if len(below) > MOST_LISTED else "")
            raise InputError(f"{len(below)} runs in this folder", allowed=f"one of {listed}", where=label)
        allowed = "a run directory, or a folder with a log of TensorBoard, W&B, MLflow or the Hugging Face Trainer"
        raise InputError("no log in this folder", allowed=allowed, where=label)
    if len(found) > 1:
        places = ", ".join(f"{place} ({log.kind})" for place, log in [*found.items()][:MOST_LISTED])
        more = f", and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
        raise InputError(f"{len(found)} logs in this folder", allowed=f"one of {places}{more}", where=label)
    return next(iter(found.values()))


def _is_run(folder: Path) -> bool:
    """One of our run directories, or the output of the Hugging Face Trainer, which are not looked for in depth."""
    return is_run_directory(folder) or bool(find_trainer_states(folder))


def _by_layout(folder: Path) -> dict[str, Log]:
    """Everything in the layouts that trainers and trackers use, by a path that names it alone."""
    label = str(folder)
    found: dict[str, Log] = {}
    state = trainer_state_log(folder, label)
    if state is not None:
        found[str(find_trainer_states(folder)[0])] = state
    found |= {str(events.paths[0].parent): events for events in find_event_logs(folder, label)}
    found |= {str(run.paths[0].parent): run for run in find_wandb_logs(folder, label)}
    found |= {str(run.path): MlflowLog(run.path, label) for run in find_mlflow_runs(folder)}
    return found


def _by_content(folder: Path) -> dict[str, Log]:
    """Files that are logs by what is in them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = {path: _in_file(path, str(path), tables_too=False) for path in files[:MOST_FILES]}
    return {str(path): log for path, logs in found.items() for log in logs or ()}


def _one_of(logs: Sequence[Log], run: str, file: str) -> Log:
    for log in logs:
        if run in {log.name, log.label.rpartition(RUN_MARK)[2]}:
            return log
    names = ", ".join(log.name or log.label for log in logs[:MOST_LISTED])
    raise InputError("no such run in this file", run, f"one of {names}", file)
