"""task_section: what retraining says of the scores of one task."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import share, table
from .one_task import DERIVATIVE

BAR = 0.9
STANDS_OUT = 10.0  # times the noise of retraining
QUERIES = {
    "parity": "Queries are the mean losses of unseen strings of even and of odd parity.",
    "sudoku": "Queries are the mean losses of two halves of the hardest boards, none of them trained on.",
    "language": "Queries are the mean losses of the answers of unseen conversations, one for each source.",
}


def task_section(task: dict[str, Any]) -> str:
    """A table of scores, the verdict, the seeds, and a picture."""
    s, judged = task["settings"], task["judgement"]
    steps = len(next(iter(judged["scores"].values()))["steps"]["value"])
    rows = [[name, *_row(of, task["seeds"], name, steps)] for name, of in judged["scores"].items()]
    rows.append(["effects / noise of retraining", "", "", *(_times(x) for x in stands_out(task)), ""])
    heads = ("score", "cost", "whole loss: LDS", *(f"step {t}" for t in range(1, steps + 1)), "QLD")
    parts = [
        f"## {task['about'][0].upper()}{task['about'][1:]}\n",
        f"One looped block (d={s['d']}), Adam at {s['rate']:g} (eps_root={s['eps_root']:g}), {s['examples']} examples, "
        f"{s['batch']} in a batch, {s['updates']} updates. Window: the last {task['window']} updates. {s['groups']} "
        f"random groups of {share(s['share'])}, {seeds_text(task)}. {QUERIES[s['task']]}\n",
        table(heads, rows),
        verdict(task),
        _seeds(task),
        _smoothness(judged),
        *(f"- {note}\n" for note in judged["notes"]),
        *(f"- {name} could not be run: {error}\n" for name, error in task["failed"].items()),
        f"![cost against step-swap LDS, {s['task']}](figure-{s['task']}.png)\n",
    ]  # fmt: skip
    return "\n".join(parts)


def stands_out(task: dict[str, Any]) -> list[float]:
    """For each loop step, the size of the effects of leaving groups out over that of retraining in another order.

    The smallest over seeds; both are root mean squares over queries.
    """
    out = []
    for seed, effects in zip(task["seeds"], task["judgement"]["sizes"], strict=True):
        noise = np.sqrt((np.array(seed["noise"]) ** 2).mean(axis=0))
        size = np.array(effects)
        out.append(size / noise)
    return [float(x) for x in np.min(out, axis=0)[1:]]


def seeds_text(task: dict[str, Any]) -> str:
    count = len(task["seeds"])
    return f"{count} seed" + "s" * (count != 1)


def _row(judged: dict[str, Any], seeds: list[dict[str, Any]], name: str, count: int) -> list[str]:
    cost = [seed["costs"][name]["multiple"] for seed in seeds if name in seed["costs"]]
    steps, qld = judged["steps"], judged["qld"]
    return [
        f"{np.mean(cost):.3g}x" if cost else "",
        _text(judged["lds"], 0),
        *([_short(x) for x in steps["value"]] if steps else [""] * count),
        "" if qld is None else f"{qld['value'][0]:+.2g} ({qld['low'][0]:+.2g} to {qld['high'][0]:+.2g})",
    ]


def _text(interval: dict[str, Any], column: int) -> str:
    value, low, high = (interval[key][column] for key in ("value", "low", "high"))
    return "none" if value is None else f"{value:.2f} ({low:.2f} to {high:.2f})"


def _short(x: float | None) -> str:
    return "none" if x is None else f"{x:.2f}"


def _times(x: float) -> str:
    return f"{x:.1g}x"


def _seeds(task: dict[str, Any]) -> str:
    rows = []
    by_seed = task["judgement"]["scores"][DERIVATIVE]["by_run"]
    for seed, lds in zip(task["seeds"], by_seed, strict=True):
        h = seed["horizon"]
        tried = ", ".join(f"{w}: {a:.2f}" for w, a in zip(h["windows"], h["agreements"], strict=True))
        losses = ", ".join(f"{x:.3g}" for x in seed["losses"])
        rows.append(
            (
                str(seed["seed"]), share(seed["accuracy"]), losses, str(h["smooth"]), tried, f"{h['growth'][-1]:.2g}",
                " ".join(_short(x) for x in lds[1:]),
            )
        )  # fmt: skip
    heads = (
        "seed", "right", "query losses", "smooth horizon", "agreement by window", "growth of adjoints",
        "LDS of the derivative by step",
    )  # fmt: skip
    return table(heads, rows)


def _smoothness(judged: dict[str, Any]) -> str:
    ceiling = judged["ceiling"]
    said = f"Metasmoothness {judged['metasmoothness']:.2f}."
    if ceiling is None:
        return said + "\n"
    return (
        f"{said} Between seeds, retraining ranks the groups alike with an LDS of {_text(ceiling, 0)} (whole loss): "
        "another seed is another run with effects of its own, so this bounds what holds of all runs, not of one.\n"
    )


def verdict(task: dict[str, Any]) -> str:
    """Whether the bar is met, at which of the steps that stand out."""
    steps = task["judgement"]["scores"][DERIVATIVE]["steps"]
    clear = [x >= STANDS_OUT for x in stands_out(task)]
    known = [
        (value, low, t)
        for t, (value, low, ok) in enumerate(zip(steps["value"], steps["low"], clear, strict=True), 1)
        if ok and value is not None
    ]
    said = (
        f"Bar: step-swap LDS of at least {BAR} for the derivative at every step whose effects are at least "
        f"{STANDS_OUT:g} times the noise of retraining"
    )
    if not task["smooth"]:
        return f"{said}. No window is smooth: nothing can be said.\n"
    if not known:
        return f"{said}. No step stands out.\n"
    value, low, t = min(known)
    by_run = task["judgement"]["scores"][DERIVATIVE]["by_run"]
    in_one = min(row[t] for row in by_run for _, _, t in known if row[t] is not None)
    met = "**met**" if value >= BAR else "**not met**"
    return (
        f"{said}: {met} with {seeds_text(task)}, at {len(known)} of {len(clear)} steps that stand out. The lowest is "
        f"{value:.3f}, at step {t}; its interval begins at {low:.2f}. The lowest of one seed is {in_one:.2f}.\n"
    )
