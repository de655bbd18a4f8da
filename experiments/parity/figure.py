"""figure: the two panels of the paper's figure with our other readouts, the controls, and the training of all seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base import new_figure, save_figure
from .strings import MIXED, probe

SDI, MARGIN, GREY = "#2b6cb0", "#8b1e3f", "0.6"
STATE_COLOURS = ("#2b6cb0", "#dd8b2f", "#3a8f5c", "#8b1e3f")


def draw(summary: dict[str, Any], folder: Path) -> None:
    """figure.png, controls.png and training.png."""
    for name, make in (("figure", _main), ("controls", _controls), ("training", _training)):
        save_figure(make(summary), folder / f"{name}.png")


def best_curve(readout: dict[str, Any]) -> str:
    """The curve summed over checkpoints that solve the task; if there are none, that over all."""
    return "able" if "able" in readout["sdi"] else "all"


def _main(summary: dict[str, Any]) -> Any:
    run = summary["seeds"][str(summary["main"])]
    r, n = run["probes"]["01"], summary["settings"]["test"]
    figure = new_figure(figsize=(12, 7.5))
    (a, b, c), (d, e, f) = figure.subplots(2, 3, width_ratios=(1.5, 1, 1))
    _sdi_and_margin(a, r, best_curve(r), n)
    _portrait(b, r)
    _transitions(c, r)
    _sdi_and_margin(d, r, "all", n)
    _autocorrelations(e, r)
    _recurrence(f, r)
    kinds = {"able": "checkpoints that can do 40 bits", "all": "all checkpoints"}
    a.set_title(f"A  SDI and margin, {kinds[best_curve(r)].replace('40', str(n))}", loc="left")
    d.set_title("D  as A, over all checkpoints", loc="left")
    for axes in (a, b, d, e, f):
        axes.spines["top"].set_visible(False)
    figure.suptitle(f"probe 0101..., {n} bits, seed {summary['main']}", x=0.01, ha="left")
    return figure


def _sdi_and_margin(axes: Any, r: dict[str, Any], which: str, n: int) -> None:
    sdi, margin = np.array(r["sdi"][which]), np.array(r["margin"])
    t = np.arange(1, len(sdi) + 1)
    period = r["sdi_period"][which]["found"]
    if period:
        phase = int(np.argmax([sdi[n - 3 * period : n].reshape(3, period).mean(0)]))
        for k in range(n - 3 * period + phase, -1, -period):
            axes.axvline(k + 1, color="0.9", lw=1, zorder=0)
        for k in range(n - 3 * period + phase, n, period):
            axes.axvline(k + 1, color="0.9", lw=1, zorder=0)
    axes.axvline(n, color=GREY, ls=":", lw=1.2)
    axes.plot(t, sdi, color=SDI, marker="o", ms=3)
    axes.set_xticks(range(0, len(sdi) + 1, 4))
    axes.set_xlabel("loop step")
    axes.set_ylabel("SDI, summed over training strings", color=SDI)
    other = axes.twinx()
    other.plot(t, margin, color=MARGIN, lw=1, marker=".", ms=4, alpha=0.8)
    other.set_ylabel("logit margin", color=MARGIN)
    other.spines["top"].set_visible(False)


def _portrait(axes: Any, r: dict[str, Any]) -> None:
    plane, labels = np.array(r["plane"]), np.array(r["labels"])
    axes.plot(*plane.T, color=GREY, lw=0.6, zorder=1)
    for k in range(len(r["P"])):
        axes.scatter(*plane[labels == k].T, s=26, color=STATE_COLOURS[k % 4], label=f"state {k}", zorder=2)
    axes.annotate("step 1", plane[0], xytext=(4, 4), textcoords="offset points", fontsize="small")
    axes.set_title(f"B  state at “=”, {r['plane_share']:.0%} of variance", loc="left")
    axes.legend(fontsize="small", frameon=False)
    axes.set_xlabel("first component")
    axes.set_ylabel("second component")


def _transitions(axes: Any, r: dict[str, Any]) -> None:
    P = np.array(r["P"])
    axes.imshow(P, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(P.shape):
        if P[i, j]:
            axes.text(j, i, f"{P[i, j]:.2g}", ha="center", va="center", color="white" if P[i, j] > 0.5 else "black")
    axes.set_xticks(range(len(P)))
    axes.set_yticks(range(len(P)))
    axes.set_xlabel("next state")
    axes.set_ylabel("state")
    axes.set_title("C  transitions", loc="left")


def _autocorrelations(axes: Any, r: dict[str, Any]) -> None:
    for (name, acf), style in zip(r["sdi_acf"].items(), ("--", "-", ":"), strict=False):
        axes.plot(range(len(acf)), acf, style, color=SDI, label=name)
    axes.set_ylim(top=1.35)  # room for the legend above every curve
    axes.axhline(0, color=GREY, lw=0.6)
    axes.axvline(r["true_period"], color="0.85", lw=4, zorder=0)
    axes.set_xlabel("lag (grey: period of the automaton)")
    axes.set_xticks(range(0, len(acf), 2))
    axes.set_title("E  autocorrelation of SDI", loc="left")
    axes.legend(fontsize="small", loc="upper right", ncols=3, columnspacing=1, handlelength=1.6, frameon=False)


def _recurrence(axes: Any, r: dict[str, Any]) -> None:
    cosines = r["cosines"]
    lags = range(1, len(cosines) + 1)
    axes.bar(lags, cosines, color=[MARGIN if p % r["true_period"] == 0 else GREY for p in lags])
    axes.axhline(0.95, color="black", lw=0.8, ls="--")
    axes.set_ylim(min(0, *cosines) * 1.1, 1.12)
    axes.set_xticks(lags[1::2])
    axes.set_xlabel("lag p (dashed: the paper's 0.95 at 4)")
    axes.set_title("F  mean cos(h[t], h[t+p])", loc="left")


def _controls(summary: dict[str, Any]) -> Any:
    models = {f"seed {seed}": run for seed, run in summary["seeds"].items()} | summary["controls"]
    patterns = list(next(iter(models.values()))["probes"])
    n = summary["settings"]["test"]
    figure = new_figure(figsize=(3 * len(patterns), 1.7 * len(models)))
    grid = figure.subplots(len(models), len(patterns), sharex=True, squeeze=False)
    for row, (name, run) in zip(grid, models.items(), strict=True):
        for axes, pattern in zip(row, patterns, strict=True):
            r = run["probes"][pattern]
            which = best_curve(r)
            axes.plot(range(1, n + 1), r["sdi"][which][:n], color=SDI if r["matches"][which] else MARGIN, lw=1)
            found = r["sdi_period"][which]["found"]
            axes.set_title(f"period {found}" if found else "no period", fontsize="small", pad=2)
            axes.set_yticks([])
            axes.spines[["top", "right", "left"]].set_visible(False)
        row[0].set_ylabel(f"{name}\n({which})", fontsize="medium")
    for axes, pattern in zip(grid[0], patterns, strict=True):
        true = run["probes"][pattern]["true_period"] or "none"
        name = pattern if pattern == MIXED else f"{probe(6, pattern)}..."
        axes.set_title(f"{name}, automaton {true}\n\n{axes.get_title()}", fontsize="small", pad=2)
    figure.supylabel("SDI, summed over training strings\n(each panel has its own scale)", multialignment="center")
    figure.supxlabel("loop step up to the read-out; blue: the period is the automaton's, red: it is not")
    return figure


def _training(summary: dict[str, Any]) -> Any:
    figure = new_figure(figsize=(3.6 * len(summary["seeds"]), 3.2))
    rows = figure.subplots(1, len(summary["seeds"]), sharey=True, squeeze=False)[0]
    for axes, (seed, run) in zip(rows, summary["seeds"].items(), strict=True):
        checks = run["training"]["checks"]
        steps = [c["step"] for c in checks]
        axes.plot(steps, [c["test_raw"] for c in checks], color=GREY, label="weights")
        axes.plot(steps, [c["test"] for c in checks], color=SDI, marker="o", ms=3, label="averaged weights")
        settling = [c["step"] for c in checks if c["rate"] < 0.999 * max(c["rate"] for c in checks)]
        if settling:
            axes.axvspan(settling[0], steps[-1], color="0.95", zorder=0)
        axes.set_title(f"seed {seed}", loc="left")
        axes.set_xlabel("step (grey: falling rate)")
        axes.spines[["top", "right"]].set_visible(False)
    rows[0].set_ylabel(f"right at {summary['settings']['test']} bits")
    rows[0].legend(frameon=False, fontsize="small", loc="lower right")
    return figure
