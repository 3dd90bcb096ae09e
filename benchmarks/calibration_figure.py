"""The picture of calibration.py: coverage of the 80 % intervals, and the interval score beside the method to beat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"scalerl": "#0072B2", "last_value": "#777777", "curve_fit": "#E69F00", "bootstrap": "#CC79A7"}
NAMES = {
    "scalerl": "scalerl",
    "last_value": "last value (M0)",
    "curve_fit": "curve_fit (M1)",
    "bootstrap": "bootstrap (M2)",
}


def draw(document: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.2), layout="constrained")
    figure.suptitle("Do nominal 80 % intervals hold?", fontsize=15)
    axes = figure.subplots(2, 2)
    tables = document["tables"]
    _coverage(axes[0, 0], tables, "simulated, value at 2x", "Simulated runs, value at 2x the compute")
    _coverage(axes[0, 1], tables, "simulated, value at 4x", "Simulated runs, value at 4x the compute")
    for axis, share in zip(axes[1], ("0.3", "0.5"), strict=True):
        name = f"real, end from the first {float(share):.0%}"
        _real(axis, tables, name, document["m5"][share], f"Real runs, end forecast from the first {float(share):.0%}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _split(tables: list[dict[str, Any]], table: str) -> dict[str, dict[str, dict[str, float]]]:
    """{group: {method: figures}}."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in tables:
        if row["table"] == table:
            group, method = row["row"].split(" | ")
            found.setdefault(group, {})[method] = row
    return found


def _coverage(axis: Any, tables: list[dict[str, Any]], table: str, title: str) -> None:
    groups = _split(tables, table)
    axis.axvspan(0.75, 0.88, color="#009E73", alpha=0.18, lw=0, label="75-88 %")
    for y, methods in enumerate(groups.values()):
        for method, figures in methods.items():
            axis.plot(figures["coverage"], y, "o", color=COLOURS[method], ms=8, label=NAMES[method] if y == 0 else None)
    axis.set_yticks(range(len(groups)), list(groups))
    axis.invert_yaxis()
    axis.set(xlim=(0, 1), xlabel="share of intervals that hold the truth", title=title)
    axis.legend(fontsize=8, loc="lower left")


def _real(axis: Any, tables: list[dict[str, Any]], table: str, m5: dict[str, float], title: str) -> None:
    groups = _split(tables, table)
    if not groups:
        axis.set_axis_off()
        return
    methods = [m for m in COLOURS if m in groups["all"]]
    scores = [groups["all"][m]["interval_score"] for m in methods]
    axis.bar(range(len(methods)), scores, color=[COLOURS[m] for m in methods])
    for x, method in enumerate(methods):
        text = f"{scores[x]:.3f}\nholds {groups['all'][method]['coverage']:.0%}"
        axis.text(x, 0.03 * max(scores), text, ha="center", va="bottom", fontsize=8.5, color="white")
    axis.axhline(
        m5["interval_score"], color="#D55E00", ls="--", label=f"M5, the method to beat: {m5['interval_score']:.3f}"
    )
    axis.set_xticks(range(len(methods)), [NAMES[m].replace(" (", "\n(") for m in methods])
    axis.set(ylabel="interval score (lower is better)", title=title, ylim=(0, 1.25 * max(scores)))
    axis.legend(fontsize=9)
