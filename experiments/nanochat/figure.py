"""Figures of a nanochat run: influence over steps and accuracy; the loop counter's tests; sources by steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base import new_figure, save_figure

NAMES = {
    "mid": "mid-training", "tuned": "fine-tuning", "fixed": "fixed loop count", "untrained": "untrained",
}  # fmt: skip
COLOURS = {"mid": "#2b6cb0", "tuned": "#8b1e3f", "fixed": "#dd8b2f", "untrained": "0.55"}


def draw(summary: dict[str, Any], folder: Path) -> None:
    """figure.png, counter.png and sources.png."""
    for name, make in (("figure", _influence), ("counter", _counter), ("sources", _sources)):
        save_figure(make(summary), folder / f"{name}.png")


def _main(summary: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = summary["seeds"][str(summary["main"])]
    return run


def _influence(summary: dict[str, Any]) -> Any:
    run = _main(summary)
    figure = new_figure(figsize=(12, 7.5))
    (a, b, c), (d, e, f) = figure.subplots(2, 3)
    _shares(a, run["tuned"], "A  fine-tuning, full BPTT", "whole")
    _shares(b, run["tuned"], "B  fine-tuning, truncated", "truncated")
    _shares(c, run["untrained"], "C  untrained, full BPTT", "whole")
    _shares(d, run["mid"], "D  mid-training, full BPTT", "whole")
    _shares(e, run["tuned"], "E  as A, from the end", "whole", from_end=True)
    _accuracy(f, run)
    for axes in (a, b, c, d, e, f):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"Recursive nanochat, seed {summary['main']}: cumulative signed share of influence", x=0.01, ha="left"
    )
    return figure


def _shares(axes: Any, run: dict[str, Any], title: str, way: str, from_end: bool = False) -> None:
    """Cumulative shares, a line for each horizon."""
    shown = {int(tau): x[way]["cumulative"] for tau, x in run["horizons"].items() if x[way]["cumulative"] is not None}
    for k, (tau, y) in enumerate(shown.items()):
        t = np.arange(1, tau + 1) - (tau if from_end else 0)
        axes.plot(t, y, "o-", ms=3, color=str(0.75 * (1 - k / max(1, len(shown) - 1))), label=f"tau = {tau}")
    axes.axhline(1, color="0.8", lw=0.8)
    axes.set_xlabel("steps from the last" if from_end else "loop step")
    axes.set_ylabel("cumulative share")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if shown and from_end:  # where its lines leave room
        axes.legend(frameon=False, fontsize="x-small", loc="upper left", bbox_to_anchor=(0, 0.9))
    axes.set_title(title, loc="left")


def _accuracy(axes: Any, run: dict[str, Any]) -> None:
    for name, words in NAMES.items():
        found = run[name]["accuracy"]
        tau = [int(x) for x in found]
        low, y, high = (np.array([x[key] for x in found.values()], dtype=float) for key in ("low", "share", "high"))
        axes.fill_between(tau, low, high, color=COLOURS[name], alpha=0.18, lw=0)
        axes.plot(tau, y, "o-", ms=3, color=COLOURS[name], label=words)
    axes.axhline(run["chance"], color="0.7", ls=":", label="commonest answer")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("loop steps")
    axes.set_ylabel("held-out problems answered")
    axes.legend(frameon=False, fontsize="x-small")
    axes.set_title("F  accuracy against tau", loc="left")


def _counter(summary: dict[str, Any]) -> Any:
    run = _main(summary)
    figure = new_figure(figsize=(12, 3.8))
    a, b, c = figure.subplots(1, 3)
    for name, words in NAMES.items():
        right, norm = run[name]["probe"]["by step"], run[name]["jacobian"]["norm"]
        a.plot(np.arange(1, len(right) + 1), right, "o-", ms=3, color=COLOURS[name], label=words)
        b.plot(np.arange(1, len(norm) + 1), norm, "o-", ms=3, color=COLOURS[name], label=words)
    a.axhline(run["tuned"]["probe"]["index, chance"], color="0.7", ls=":", label="chance")
    a.set_ylim(-0.02, 1.02)
    a.set_ylabel("step index read rightly")
    a.set_title("A  probe of the step index, held-out", loc="left")
    b.axhline(1, color="0.8", lw=0.8)
    b.set_ylabel("spectral norm")
    b.set_title("B  the step's own Jacobian", loc="left")
    found = run["swap"]
    for whose, marker in (("own", "o"), ("other", "s")):
        some = [found["swaps"][f"{whose}, {t}"]["loss, more than own"] for t in found["steps"]]
        y = np.array([x["value"] for x in some])
        bars = [y - [x["low"] for x in some], [x["high"] for x in some] - y]
        c.errorbar(found["steps"], y, yerr=np.abs(bars), fmt=f"{marker}-", ms=4, capsize=3, label=f"{whose} state")
    c.axhline(0, color="0.8", lw=0.8)
    c.set_ylabel("loss, more than unswapped")
    c.set_title(f"C  state put in after step {found['at']} of {found['tau']}", loc="left")
    for axes in (a, b, c):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("loop step" if axes is not c else "step that the state is of")
        if axes is not b:  # whose colours are those of a
            axes.legend(frameon=False, fontsize="x-small")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _sources(summary: dict[str, Any]) -> Any:
    run = _main(summary)
    stages = run["sources"]
    tasks = list(next(iter(stages.values()))["table"])
    figure = new_figure(figsize=(2.5 * len(tasks), 2.4 * len(stages)))
    grid = figure.subplots(len(stages), len(tasks), squeeze=False)
    for row, (stage, found) in zip(grid, stages.items(), strict=True):
        for axes, (task, sources) in zip(row, found["table"].items(), strict=True):
            x = np.array([[cell["value"] for cell in one["steps"]] for one in sources.values()])
            most = np.abs(x).max() or 1.0
            axes.imshow(x / most, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
            for i, one in enumerate(sources.values()):
                for j, cell in enumerate(one["steps"]):
                    if cell["low"] > 0 or cell["high"] < 0:
                        axes.text(j, i, "*", ha="center", va="center", fontsize=8)
            axes.set_xticks(range(x.shape[1]), [str(t + 1) for t in range(x.shape[1])], fontsize="x-small")
            axes.set_yticks(range(len(sources)), list(sources) if task == tasks[0] else [""] * len(sources))
            axes.set_title(f"{NAMES[stage]}: on {task}", fontsize="small")
    figure.suptitle(
        "influence by source (rows) and step (columns), largest = 1; * the interval is without 0", fontsize=9
    )
    return figure
