"""The published studies: did the forecasts from half of the budget hold, and what would the race have saved?

    python benchmarks/study_results.py              # seconds; reads docs/studies/*.json
    python benchmarks/study_results.py --markdown   # the tables of docs/study_results.md

Each file is what `scalerl study report DIR --replay-prune --format json` gave. Cells are pooled over all studies: the
forecast at the full budget from the first half against what came. A base that several studies share counts once.
benchmarks/results/study_results.json keeps the figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "docs" / "studies"
RESULTS = Path(__file__).parent / "results" / "study_results.json"
COVERAGE = (0.70, 0.90)
ERROR = 0.03
SAVED = 0.40
ORDER = (
    "leave_one_out", "recipes", "forward", "fp32_head", "batch", "rollouts_per_prompt", "generation_length",
    "model_size", "k", "staleness", "clip_high",
)  # fmt: skip

Document = dict[str, Any]


def studies() -> dict[str, Document]:
    """The published ones, in the order of the page."""
    found = {name: STUDIES / f"{name}.json" for name in ORDER}
    return {name: json.loads(file.read_text()) for name, file in found.items() if file.exists()}


def forecasts(documents: dict[str, Document], *, single: bool) -> list[Document]:
    """Rows of single runs, or of cells: all seeds together, or the only one. A base that was seen is left out."""
    rows: dict[tuple[Any, ...], Document] = {}
    bases: set[float] = set()
    for document in documents.values():
        every = document["extrapolation"]["rows"]
        found = [row for row in every if row["cell"] != document["base"] or row["actual"] not in bases]
        bases |= {row["actual"] for row in every if row["cell"] == document["base"]}
        pooled = {row["cell"] for row in found if row["seed"] is None}
        for row in found:
            if (row["seed"] is not None) if single else (row["seed"] is None or row["cell"] not in pooled):
                same = row["seed"], row["actual"], row["compute"]  # the same curve, bit for bit, counts once
                rows.setdefault(same, row | {"study": document["study"]})
    return list(rows.values())


def summary(rows: list[Document]) -> dict[str, float]:
    return {
        "count": len(rows),
        "coverage": fmean(row["inside"] for row in rows),
        "mean_absolute_error": fmean(abs(row["error"]) for row in rows),
        "mean_error": fmean(row["error"] for row in rows),
    }


def races(documents: dict[str, Document]) -> dict[str, Document]:
    """What the race would have saved in each study, and which verdicts it would have changed."""
    kept = ("saved", "verdicts", "changed", "stopped", "best_before", "best_after")
    return {name: {key: found["replay"][key] for key in kept} for name, found in documents.items()}


def signed(estimate: Document | None) -> str:
    if estimate is None or estimate["value"] is None:
        return ""
    interval = "" if estimate["low"] is None else f" [{estimate['low']:+.2f}, {estimate['high']:+.2f}]"
    return f"{estimate['value']:+.2f}{interval}"


def table(document: Document) -> Iterator[str]:
    """One study beside the paper. The first row is the base: its own numbers, not differences."""
    cells = {cell["name"]: cell for cell in document["cells"]}
    base = cells[document["base"]]["joint"]
    yield "| choice | here | ceiling | exponent | value at full budget | the paper |"
    yield "|---|---|---|---|---|---|"
    yield f"| base | | {plain(base['ceiling'])} | {plain(base['exponent'])} | | |"
    for choice in document["choices"]:
        differences = (signed(choice[key]) for key in ("ceiling", "exponent", "value"))
        paper = cells[choice["cell"]]["paper"] or ""
        yield f"| {choice['cell']} | {choice['verdict']} | {' | '.join(differences)} | {paper} |"


def forecast_table(rows: list[Document]) -> Iterator[str]:
    """Every cell: foretold from the first half, what came, and whether the interval held."""
    yield "| study | cell | foretold, 80 % interval | came | |"
    yield "|---|---|---|---|---|"
    for row in rows:
        interval = f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        held = "inside" if row["inside"] else "**outside**"
        yield f"| {row['study']} | {row['cell']} | {interval} | {row['actual']:.3f} | {held} |"


def plain(estimate: Document) -> str:
    return f"{estimate['value']:.2f} [{estimate['low']:.2f}, {estimate['high']:.2f}]"


def main() -> int:
    documents = studies()
    if not documents:
        print(f"no study in {STUDIES}")
        return 1
    if "--markdown" in sys.argv:
        for name, document in documents.items():
            print(f"\n### {name}\n", *table(document), sep="\n")
        print("\n### forecasts\n", *forecast_table(forecasts(documents, single=False)), sep="\n")
        return 0
    cells, runs = (summary(forecasts(documents, single=single)) for single in (False, True))
    raced = races(documents)
    RESULTS.write_text(json.dumps({"cells": cells, "runs": runs, "races": raced}, indent=2) + "\n")
    for words, found in (("cells, all their seeds together", cells), ("single runs", runs)):
        print(f"{words}: {found['count']} forecasts from half of the budget")
        print(f"  inside the 80 % interval  {found['coverage']:.1%}  (limit {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%})")
        print(f"  mean absolute error       {found['mean_absolute_error']:.4f}  (limit {ERROR})")
        print(f"  mean error                {found['mean_error']:+.4f}")
    for name, race in raced.items():
        changed = f"{len(race['changed'])} of {race['verdicts']} verdicts changed"
        best = f"best {race['best_before']} -> {race['best_after']}"
        print(f"race of {name}: {race['saved']:.1%} saved (limit {SAVED:.0%}), {changed}, {best}")
    good = COVERAGE[0] <= cells["coverage"] <= COVERAGE[1] and cells["mean_absolute_error"] <= ERROR
    print("the forecasts hold" if good else "the forecasts MISS a limit")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
