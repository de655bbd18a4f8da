"""Sections of the report beside the tasks: smooth horizons, what leaving strong strings out does, the shipped model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import share, table
from .removal import KINDS, SHARES


def horizons_section(found: list[dict[str, Any]]) -> str:
    """For every variant: agreement by window, the smooth horizon and growth, seed by seed."""
    names = list(dict.fromkeys(row["name"] for row in found))
    rows = []
    for name in names:
        of = [row for row in found if row["name"] == name]
        rows.append((
            name,
            ", ".join(str(row["horizon"]["smooth"]) for row in of),
            ", ".join(f"{row['horizon']['agreements'][-1]:.2f}" for row in of),
            ", ".join(f"{row['horizon']['growth'][-1]:.2g}" for row in of),
            ", ".join(f"{np.mean(row['losses']):.2g}" for row in of),
        ))  # fmt: skip
    longest = max(row["horizon"]["windows"][-1] for row in found)
    return "\n".join([
        "## What lengthens the smooth horizon\n",
        "The same parity training with one setting changed. The horizon is the longest of the windows "
        f"{longest}, {longest // 2}, {longest // 4}, ... in which the derivative agrees (cosine of at least 0.9) with "
        f"what really happens when random groups are left out. One number for each seed; {longest} means at "
        "least that many.\n",
        table(
            ("training", "smooth horizon, updates", f"agreement in {longest}", f"growth of adjoints over {longest}",
             "query loss"),
            rows,
        ),
    ])  # fmt: skip


def removal_section(found: list[dict[str, Any]]) -> str:
    """What was left out, and what it did to the queries' later and earlier steps and to strings of each length."""
    lengths = found[0]["lengths"]
    rows = []
    for part in SHARES:
        for kind in (*KINDS, "random"):
            of = [[row for row in seed["rows"] if (row["share"], row["kind"]) == (part, kind)] for seed in found]
            means = [[np.mean([row[key] for row in some]) for some in of] for key in ("whole", "late", "early")]
            by_length = np.mean([[row["by length"] for row in some] for some in of], axis=(0, 1))
            chance = f"random {share(part)} ({len(of[0])} groups)"
            what = chance if kind == "random" else f"top {share(part)}, by {kind}"
            rows.append((what, *(_each(values) for values in means), *(f"{x:+.2g}" for x in by_length)))
    heads = ("left out", "loss of queries", "later steps", "earlier steps", *(f"{n} bits" for n in lengths))
    strings = [
        (str(seed["seed"]), *(", ".join(_strongest(seed, kind)) for kind in KINDS),
         *(f"{seed['agreement'][kind]:.2f}" for kind in KINDS[:2]))
        for seed in found
    ]  # fmt: skip
    mass = [
        (str(seed["seed"]), *(f"{x:.2f} ({n})" for x, n in zip(
            seed["late mass by length"], seed["strings by length"], strict=True)))
        for seed in found
    ]  # fmt: skip
    return "\n".join([
        "## Which strings made the late steps, and what breaks without them\n",
        "By the derivative, the strings with the most influence on the later half of the queries' steps, on the "
        "earlier half and on the whole loss are left out of the window, for real. Changes of the loss, positive where "
        "it rises: of the queries, through the retrained weights in their later and earlier steps only (each "
        "seed), and of all strings of each length (mean over seeds).\n",
        table(heads, rows),
        "The strongest strings, and the rank correlation of influence on half of the steps with that on the loss:\n",
        table(("seed", *KINDS, "late with whole", "early with whole"), strings),
        "Mean absolute influence on later steps of a training string of each length, over that of all (and how many "
        "strings there are):\n",
        table(("seed", *(f"{n} bits" for n in lengths)), mass),
    ])  # fmt: skip


def continued_section(found: dict[str, Any], settings: dict[str, Any]) -> str:
    """Periods of the curves of every score on both probes."""
    rows = [
        (name, pattern, _period(p), f"{found['acf'][name][pattern][4]:.2f}",
         "" if name not in found["alike"][pattern] else f"{found['alike'][pattern][name]:.2f}")
        for name, of in found["periods"].items()
        for pattern, p in of.items()
    ]  # fmt: skip
    h = found["horizon"]
    tried = ", ".join(f"{w}: {a:.2f}" for w, a in zip(h["windows"], h["agreements"], strict=True))
    return "\n".join([
        "## Is the period of TracIn's steps in the derivative, too?\n",
        f"The parity model that ships with the library (lengths 2 to 20), trained on for {settings['updates']} updates "
        f"at a rate of {settings['rate']:g} with AdamW on {found['strings']} of its training strings, asked about "
        f"{settings['bits']} bits: 0101... and the same bits in another order. Scores are of the last "
        f"{settings['window']} updates, summed over training strings. The derivative agrees with small real changes, "
        f"by window: {tried}.\n",
        table(("score", "probe", "period", "autocorrelation at lag 4", "correlation with the derivative"), rows),
        "![curves over loop steps](continued.png)\n",
    ])  # fmt: skip


def _each(values: list[Any]) -> str:
    return ", ".join(f"{x:+.2g}" for x in values)


def _strongest(seed: dict[str, Any], kind: str) -> list[str]:
    (row,) = [row for row in seed["rows"] if (row["share"], row["kind"]) == (SHARES[-1], kind)]
    return list(row["strings"])


def _period(p: dict[str, Any]) -> str:
    if p["found"] is None:
        return f"none (highest at lag {p['lag']}: {p['height']:.2f})"
    return f"{p['found']} ({p['height']:.2f})"
