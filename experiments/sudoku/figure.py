"""figure: the paper's two panels, horizons and controls beside them; the training of all seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base import new_figure, save_figure

COLOURS = ("#2b6cb0", "#dd8b2f", "#8b1e3f")  # easy, middle, hard
GREY = "0.6"


def draw(summary: dict[str, Any], folder: Path) -> None:
    """figure.png and training.png."""
    for name, make in (("figure", _main), ("training", _training)):
        save_figure(make(summary), folder / f"{name}.png")


def _main(summary: dict[str, Any]) -> Any:
    run, loops = summary["seeds"][str(summary["main"])], summary["settings"]["loops"]
    figure = new_figure(figsize=(12, 7.5))
    (a, b, c), (d, e, f) = figure.subplots(2, 3)
    _panel_a(a, run["panel A"], loops)
    _panel_b(b, run["panel B"])
    b.set_title("B  SDI energy, median and IQR", loc="left")
    _stopping(c, run["horizon"])
    _by_rounds(d, run["predictors"])
    others = summary["controls"]
    for axes, name, letter in ((e, "untrained", "E"), (f, "permuted labels", "F")):
        _panel_b(axes, others[name]["panel B"])
        axes.set_title(f"{letter}  as B, {name}", loc="left")
    for axes in (a, b, c, d, e, f):
        axes.spines[["top", "right"]].set_visible(False)
    size = summary["settings"]["size"]
    kind = "SATNet's" if summary["settings"]["satnet"] else "generated"
    figure.suptitle(f"Sudoku {size}x{size}, {kind} boards, seed {summary['main']}", x=0.01, ha="left")
    return figure


def _panel_a(axes: Any, panel: dict[str, Any], loops: int) -> None:
    parts = [x for x in panel.items() if x[0] != "all"]
    for colour, (name, part) in zip(colours(len(parts)), parts, strict=True):
        t = np.arange(1, len(part["curve"]) + 1)
        low, middle, high = (np.array([p[key] for p in part["curve"]], dtype=float) for key in ("low", "share", "high"))
        axes.fill_between(t, low, high, color=colour, alpha=0.18, lw=0)
        axes.plot(t, middle, color=colour, label=f"{blanks(name)} ({part['boards']})")
    axes.axvline(loops, color=GREY, ls=":", lw=1.2)
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("loop steps at test time (dotted: mean in training)")
    axes.set_ylabel("test boards solved, 95% interval")
    axes.legend(frameon=False, fontsize="small", loc="lower right")
    axes.set_title("A  accuracy by loop steps", loc="left")


def _panel_b(axes: Any, panel: list[dict[str, Any]]) -> None:
    for colour, part in zip(colours(len(panel)), panel, strict=True):
        t = np.arange(1, len(part["median"]) + 1)
        axes.fill_between(t, part["low"], part["high"], color=colour, alpha=0.18, lw=0)
        axes.plot(t, part["median"], color=colour, label=f"{blanks('{}-{}'.format(*part['bin']))} ({part['boards']})")
    axes.set_yscale("log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("loop step")
    axes.set_ylabel("SDI energy")
    axes.legend(frameon=False, fontsize="small")


def _stopping(axes: Any, found: dict[str, Any]) -> None:
    ways = found["ways"]
    for k, way in enumerate(ways.values()):
        solved = way["solved"]
        axes.barh(k, way["loops"], color=COLOURS[0], alpha=0.35)
        words = "" if solved["share"] is None else f"{solved['share']:.1%} solved"
        axes.text(0.1, k, words, va="center", fontsize="small")
    names = [name.replace(" (", "\n(") for name in ways]
    axes.set_yticks(range(len(ways)), names, fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("loop steps taken, mean")
    axes.set_title("C  ways to stop", loc="left")


def _by_rounds(axes: Any, found: dict[str, Any]) -> None:
    late, needs = found["late mass by rounds"], found["loops needed by rounds"]
    x = [int(k) for k in late]
    axes.plot(x, list(late.values()), "o-", color=COLOURS[0])
    axes.set_ylabel("late mass, mean", color=COLOURS[0])
    axes.set_ylim(0, 1.15 * max(late.values()))
    other = axes.twinx()
    other.plot([int(k) for k in needs], list(needs.values()), "s--", color=COLOURS[2])
    other.set_ylabel("loop steps needed, mean", color=COLOURS[2])
    other.set_ylim(0, 1.15 * max(needs.values(), default=1.0))
    other.spines["top"].set_visible(False)
    axes.set_xticks(x, [f"{k}\n({found['rounds'][str(k)]})" for k in x])
    axes.set_xlabel("rounds of hidden singles (boards)")
    axes.set_title("D  by depth of the board", loc="left")


def _training(summary: dict[str, Any]) -> Any:
    runs = {f"seed {seed}": run for seed, run in summary["seeds"].items()}
    if "trained on permuted labels" in summary["controls"]:
        runs["trained on permuted labels"] = summary["controls"]["trained on permuted labels"]
    figure = new_figure(figsize=(4.2 * len(runs), 3.2))
    row = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for axes, (name, run) in zip(row, runs.items(), strict=True):
        checks = run["training"]["checks"]
        steps = [c["step"] for c in checks]
        axes.plot(steps, [c["train"] for c in checks], color=COLOURS[0], label="training boards (easy)")
        axes.plot(steps, [c["test"] for c in checks], color=COLOURS[2], label="test boards (hard)")
        axes.set_title(name, loc="left")
        axes.set_xlabel("update")
        axes.spines[["top", "right"]].set_visible(False)
    row[0].set_ylim(-0.02, 1.02)
    row[0].set_ylabel("solved")
    row[0].legend(frameon=False, fontsize="small")
    return figure


def colours(many: int) -> tuple[str, ...]:
    """Of bins from easy to hard, at most three.

    >>> colours(2) == (COLOURS[0], COLOURS[2])
    True
    """
    return {1: COLOURS[:1], 2: COLOURS[::2]}.get(many, COLOURS)


def blanks(name: str) -> str:
    """
    >>> blanks("46-47"), blanks("48-48")
    ('46-47 blanks', '48 blanks')
    """
    low, high = name.split("-")
    return f"{low} blanks" if low == high else f"{name} blanks"
