"""Pictures: of each task, cost against step-swap LDS and LDS over loop steps; of the shipped model, its curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base import new_figure, save_figure
from .one_task import DERIVATIVE
from .task_section import BAR


def draw(summary: dict[str, Any], folder: Path) -> None:
    """Write FOLDER/figure-TASK.png and FOLDER/continued.png."""
    for task in summary["tasks"]:
        save_figure(_task(task), folder / f"figure-{task['settings']['task']}.png")
    if summary["continued"]:
        save_figure(_continued(summary["continued"]), folder / "continued.png")


def _task(task: dict[str, Any]) -> Any:
    figure = new_figure(figsize=(11, 4.2))
    left, right = figure.subplots(1, 2)
    for name, judged in task["judgement"]["scores"].items():
        if judged["steps"] is None:
            continue
        steps, low, high = (_numbers(judged["steps"][key]) for key in ("value", "low", "high"))
        at = np.arange(1, len(steps) + 1)
        right.set_xticks(at)
        bold = name == DERIVATIVE
        (line,) = right.plot(at, steps, marker="o", ms=3, lw=2.5 if bold else 1.2, label=name)
        if bold:
            right.fill_between(at, low, high, alpha=0.15, color=line.get_color(), lw=0)
        cost = float(np.mean([seed["costs"][name]["multiple"] for seed in task["seeds"] if name in seed["costs"]]))
        left.plot([cost], [np.nanmean(steps)], "o", color=line.get_color())
        left.vlines(cost, np.nanmin(steps), np.nanmax(steps), color=line.get_color(), alpha=0.4)
    left.set(
        xlabel="cost, as a multiple of training through the window", ylabel="step-swap LDS: mean, lowest, highest",
        xlim=(0, None), ylim=(-0.6, 1.05),
    )  # fmt: skip
    right.set(xlabel="loop step of the query", ylabel="step-swap LDS", ylim=(-0.6, 1.05))
    for axis in (left, right):
        axis.axhline(0, color="grey", lw=0.5)
        axis.axhline(BAR, color="grey", lw=0.5, ls=":")
    figure.legend(*right.get_legend_handles_labels(), loc="outside right center", fontsize=7)
    figure.suptitle(task["about"], fontsize=10)
    return figure


def _continued(found: dict[str, Any]) -> Any:
    patterns = list(next(iter(found["curves"].values())))
    figure = new_figure(figsize=(11, 2.4 * len(found["curves"])))
    axes = figure.subplots(len(found["curves"]), len(patterns), sharex=True, squeeze=False)
    for row, (name, of) in zip(axes, found["curves"].items(), strict=True):
        for axis, pattern in zip(row, patterns, strict=True):
            axis.plot(np.arange(1, len(of[pattern]) + 1), of[pattern], marker=".", ms=4, lw=1)
            axis.axhline(0, color="grey", lw=0.5)
            axis.set_title(f"{name}, probe {pattern}", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("loop step of the probe")
    return figure


def _numbers(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if x is None else x for x in values], dtype=float)
