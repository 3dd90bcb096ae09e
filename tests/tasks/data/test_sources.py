"""Where rows come from: every format gives the same problems, and damage is said in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalerl.errors import InputError, MissingDependencyError
from scalerl.tasks import FileTask, Problem
from scalerl.tasks.data import hub
from scalerl.tasks.data.open import open_rows
from scalerl.tasks.records import Columns, Record, open_records

from .conftest import FORMATS, Rows, sample, write_jsonl, write_parquet, write_saved_dataset

VERL = sample("verl")


def everything(task: FileTask) -> list[Problem]:
    return [*task.problems("train")[0:], *task.problems("held_out")[0:]]


def message(path: object, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        FileTask(path=str(path), **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_every_format_gives_the_same_problems(write: Callable[[Rows], str], tmp_path: Path) -> None:
    expected = FileTask(path=str(write_jsonl(tmp_path / "a.jsonl", VERL)), layout="verl", held_out_share=0.3)
    found = FileTask(path=write(VERL), layout="verl", held_out_share=0.3)
    assert everything(found) == everything(expected)
    assert len(everything(found)) == len(VERL)


def test_rows_are_counted_through_all_shards(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"prompt": f"p{i}", "answer": "a"} for i in range(10)]
    rows[8]["answer"] = None
    path = write_saved_dataset(tmp_path / "saved", rows)
    assert f"{path}, row 9: empty answer in 'answer'" in message(path)


def test_only_the_needed_columns_are_read(write: Callable[[Rows], str]) -> None:
    with open_rows(write(VERL)) as rows:
        assert "extra_info" in rows.columns
        seen = [row for _, row in rows.read(["ability"])]
        assert all(isinstance(row, dict) and row["ability"] == "math" for row in seen)
        assert len(seen) == len(VERL)
        assert 0 < rows.done() <= rows.num_bytes


@pytest.mark.parametrize("name", ["parquet", "arrow", "stream.arrow"])
def test_half_a_file(name: str, tmp_path: Path) -> None:
    path = FORMATS[name](tmp_path / "whole", VERL)
    broken = tmp_path / "broken"
    broken.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "broken" in message(broken, layout="verl")


def test_a_table_without_rows(tmp_path: Path) -> None:
    import pyarrow as pa

    schema = pa.schema([("prompt", pa.string()), ("answer", pa.string())])
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), schema):
        pass
    assert "no rows in the file" in message(tmp_path / "a.arrow")


def test_folders_that_are_not_one_table(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "a folder without data" in message(tmp_path / "empty")
    both = tmp_path / "both"
    both.mkdir()
    write_parquet(both / "train-00000-of-00001.parquet", VERL)
    write_parquet(both / "test-00000-of-00001.parquet", VERL)
    assert "a folder with several tables; allowed: one of its files" in message(both)
    assert "here are test.parquet, train.parquet" in message(both)


def test_a_dataset_dict_needs_a_split(tmp_path: Path) -> None:
    path = tmp_path / "dict"
    path.mkdir()
    for split in ("train", "test"):
        write_saved_dataset(path / split, VERL)
    (path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert f"a folder with several splits; allowed: one of {path / 'train'}, {path / 'test'}" in message(path)
    assert len(everything(FileTask(path=str(path / "test"), layout="verl", held_out_share=0.3))) == len(VERL)
    (path / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    assert len(everything(FileTask(path=str(path), layout="verl", held_out_share=0.3))) == len(VERL)


def test_damaged_dataset_folders(tmp_path: Path) -> None:
    path = write_saved_dataset(tmp_path / "saved", VERL)
    (path / "data-00001-of-00002.arrow").unlink()
    assert "a file of this dataset is missing: got 'data-00001-of-00002.arrow'" in message(path)
    (path / "state.json").write_text("{")
    assert "state.json: broken dataset folder" in message(path)


def test_shards_with_other_columns(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    write_jsonl(folder / "train-00000-of-00002.jsonl", [{"prompt": "p", "answer": "a"}])
    write_jsonl(folder / "train-00001-of-00002.jsonl", [{"prompt": "q", "solution": "a"}])
    assert "train-00001-of-00002.jsonl: no such column in this file: got 'answer'" in message(folder)


def test_one_broken_line_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "p", "answer": 1}\n{"prompt": oops}\n{"prompt": "q", "answer": 2}\n')
    with open_records(path, Columns()) as records:
        found = list(records.read())
    assert [one.number if isinstance(one, Record) else str(one)[-60:] for one in found][::2] == [1, 3]
    assert "line 2: broken JSON" in str(found[1])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("hub:openai/gsm8k", hub.HubName("openai/gsm8k", None, "train", None)),
        ("hub:openai/gsm8k:main:test", hub.HubName("openai/gsm8k", "main", "test", None)),
        ("hub:org/data@1a2b3c::test", hub.HubName("org/data", None, "test", "1a2b3c")),
    ],
)
def test_names_of_the_hub(path: str, name: hub.HubName) -> None:
    assert hub.parse_hub(path) == name


@pytest.mark.parametrize("path", ["hub:", "hub:a:b:c:d", "hub:org/data@"])
def test_no_names_of_the_hub(path: str) -> None:
    assert "no dataset of the hub" in message(path)
    assert "such as hub:openai/gsm8k:main:test" in message(path)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"scalerl\[hub\]"):
        FileTask(path="hub:openai/gsm8k")


class Loader:
    """In the place of the package `datasets`: answers from a list of rows, or fails."""

    def __init__(self, answer: Any) -> None:
        self.asked: tuple[Any, ...] = ()
        self._answer = answer
        self.exceptions = SimpleNamespace(DatasetsError=KeyError)

    def load_dataset(self, name: str, config: str | None, *, split: str, revision: str | None) -> Any:
        self.asked = (name, config, split, revision)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def replace_package(monkeypatch: pytest.MonkeyPatch, answer: Any) -> Loader:
    loader = Loader(answer)
    monkeypatch.setattr(hub, "find_spec", lambda _: object())
    monkeypatch.setitem(sys.modules, "datasets", loader)
    return loader


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (ConnectionError("Couldn't reach it\nreally"), "the Hugging Face hub cannot be reached (Couldn't reach it)"),
        (ValueError("Unknown split"), "the dataset cannot be loaded (Unknown split)"),
        (FileNotFoundError("Dataset 'x' doesn't exist"), "the dataset cannot be loaded (Dataset 'x' doesn't exist)"),
        (RuntimeError("Dataset scripts are no longer supported"), "the dataset cannot be loaded (Dataset scripts"),
        (KeyError("gated"), "the dataset cannot be loaded"),
    ],
)
def test_a_hub_that_says_no(error: Exception, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_package(monkeypatch, error)
    text = message("hub:openai/gsm8k:main")
    assert text.startswith("hub:openai/gsm8k:main: ")
    assert part in text
    assert "a local file" in text


def test_a_dataset_of_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The real package gives the rows; only the download is replaced."""
    datasets = pytest.importorskip("datasets")
    rows = sample("gsm8k")
    loader = replace_package(monkeypatch, datasets.Dataset.from_list(rows))
    found = FileTask(path="hub:openai/gsm8k@abc:main:test", layout="auto", held_out_share=0.3)
    assert loader.asked == ("openai/gsm8k", "main", "test", "abc")
    assert found.judged_by == "number"
    expected = FileTask(path=str(write_jsonl(tmp_path / "a.jsonl", rows)), layout="gsm8k", held_out_share=0.3)
    assert everything(found) == everything(expected)


def test_folders_that_the_real_package_writes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = sample("polaris")
    data = datasets.Dataset.from_list(rows)
    data.save_to_disk(str(tmp_path / "one"), num_shards=2)
    datasets.DatasetDict({"train": data}).save_to_disk(str(tmp_path / "dict"))
    expected = everything(FileTask(path=str(write_jsonl(tmp_path / "a.jsonl", rows)), layout="polaris"))
    for name in ("one", "dict"):
        assert everything(FileTask(path=str(tmp_path / name), layout="polaris")) == expected


def test_a_local_repository_through_the_real_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in the form of the hub's, with two splits: no network and no script."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    repository = tmp_path / "repository"
    repository.mkdir()
    write_parquet(repository / "train-00000-of-00001.parquet", sample("gsm8k")[:10])
    write_parquet(repository / "test-00000-of-00001.parquet", sample("gsm8k")[10:])
    task = FileTask(path=f"hub:{repository}", held_out_path=f"hub:{repository}::test", layout="gsm8k")
    assert (task.problems("train").size, task.problems("held_out").size) == (10, 6)
    assert "the dataset cannot be loaded" in message(f"hub:{repository}::validation")


@pytest.mark.parametrize("name", FORMATS)
def test_many_rows_come_in_order_and_once(name: str, tmp_path: Path) -> None:
    path = FORMATS[name](tmp_path / "a", [{"prompt": f"p{i}", "answer": str(i)} for i in range(1000)])
    with open_records(path, Columns()) as records:
        assert [one.answer for one in records.read() if isinstance(one, Record)] == [str(i) for i in range(1000)]
