"""The picture: cost against step-swap LDS of each score, and LDS over loop steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def draw(summary: dict[str, Any], folder: Path) -> None:
    """Write FOLDER/figure.png; without matplotlib, nothing."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    for name, judged in summary["judgement"]["scores"].items():
        steps = np.array([np.nan if x is None else x for x in judged["steps"]["value"]], dtype=float)
        low, high = (np.array([np.nan if x is None else x for x in judged["steps"][k]]) for k in ("low", "high"))
        cost = float(np.mean([seed["costs"][name]["multiple"] for seed in summary["seeds"]]))
        at = np.arange(1, len(steps) + 1)
        (line,) = right.plot(at, steps, marker="o", ms=3, label=name)
        right.fill_between(at, low, high, alpha=0.12, color=line.get_color())
        left.plot(cost, np.nanmean(steps), "o", color=line.get_color())
        left.annotate(name, (cost, np.nanmean(steps)), fontsize=7, xytext=(4, 3), textcoords="offset points")
    left.set_xlim(0, 1.5 * left.get_xlim()[1])
    left.set(xlabel="cost, as a multiple of training through the window", ylabel="mean step-swap LDS")
    right.set(xlabel="loop step of the query", ylabel="step-swap LDS", ylim=(-0.6, 1.05))
    for axis in (left, right):
        axis.axhline(0, color="grey", lw=0.5)
    right.legend(fontsize=6)
    figure.savefig(folder / "figure.png", dpi=110)
    plt.close(figure)
