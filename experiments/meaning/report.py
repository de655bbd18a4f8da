"""The report of a meaning experiment, in Markdown, made of its summary alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import share, table

BAR = 0.9
QUERIES = {
    "parity": "Queries are the mean losses of unseen strings of even and of odd parity.",
    "sudoku": "Queries are the mean losses of two halves of the hardest boards, none of them trained on.",
    "language": "Queries are the mean losses of the answers of unseen conversations, one for each source.",
}


def report(summary: dict[str, Any]) -> str:
    """README.md: what was done, what came out, whether the bar was met."""
    s, judged = summary["settings"], summary["judgement"]
    steps = len(next(iter(judged["scores"].values()))["steps"]["value"])
    rows = [[name, *_row(name, of, summary)] for name, of in judged["scores"].items()]
    heads = ("score", "cost", "whole loss: LDS", *(f"step {t}" for t in range(1, steps + 1)), "QLD")
    parts = [
        "# Does a step's number predict what retraining does to that step?\n",
        f"`{summary['command']}`\n",
        f"The task: {summary['about']}. One looped block (d={s['d']}), Adam (eps_root={s['eps_root']:g}), "
        f"{s['examples']} examples, {s['updates']} updates, float64. Examples are left out of the last {s['window']} "
        f"updates: {s['groups']} random groups of {share(s['share'])}, {_seeds_text(summary)}. {QUERIES[s['task']]} "
        "LDS: rank correlation of predicted with real changes, with a 95% bootstrap interval over seeds, groups and "
        "queries. Cost: CPU seconds as a multiple of training through the window; the other scores take dense "
        "gradients of examples here.\n",
        table(heads, rows),
        _seeds(summary),
        _smoothness(judged),
        *(f"- {note}\n" for note in judged["notes"]),
        _verdict(summary),
        "![cost against step-swap LDS](figure.png)\n",
    ]  # fmt: skip
    return "\n".join(parts)


def _row(name: str, judged: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    cost = float(np.mean([seed["costs"][name]["multiple"] for seed in summary["seeds"]]))
    steps = judged["steps"]
    cells = [_short(steps["value"][t]) for t in range(len(steps["value"]))]
    qld = judged["qld"]
    return [f"{cost:.3g}x", _text(judged["lds"], 0), *cells, "" if qld is None else f"{qld['value'][0]:+.2g}"]


def _text(interval: dict[str, Any], column: int) -> str:
    value, low, high = (interval[key][column] for key in ("value", "low", "high"))
    return "none" if value is None else f"{value:.2f} ({low:.2f} to {high:.2f})"


def _short(x: float | None) -> str:
    return "none" if x is None else f"{x:.2f}"


def _seeds(summary: dict[str, Any]) -> str:
    rows = []
    for seed in summary["seeds"]:
        h = seed["horizon"]
        tried = ", ".join(f"{w}: {a:.2f}" for w, a in zip(h["windows"], h["agreements"], strict=True))
        losses = ", ".join(f"{x:.3g}" for x in seed["losses"])
        rows.append(
            (str(seed["seed"]), share(seed["accuracy"]), losses, str(h["smooth"]), tried, f"{h['growth'][-1]:.2g}")
        )
    heads = ("seed", "right", "query losses", "smooth horizon", "agreement by window", "growth of adjoints")
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


def _seeds_text(summary: dict[str, Any]) -> str:
    count = len(summary["seeds"])
    return f"{count} seed" + "s" * (count != 1)


def _verdict(summary: dict[str, Any]) -> str:
    steps = summary["judgement"]["scores"]["through training"]["steps"]
    known = [(value, low) for value, low in zip(steps["value"], steps["low"], strict=True) if value is not None]
    value, low = min(known)
    return (
        f"Bar: step-swap LDS of at least {BAR} for the derivative at every step. "
        + ("Met" if value >= BAR else "Not met")
        + f" with {_seeds_text(summary)}: the lowest is {value:.3f}, and its interval begins at {low:.2f}.\n"
    )
