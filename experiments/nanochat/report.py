"""report: the page of a nanochat run, in Markdown; every number is from the summary."""

from __future__ import annotations

from typing import Any

from ..base import share, table

NAMES = {"mid": "mid-training", "tuned": "fine-tuning", "untrained": "untrained"}


def report(summary: dict[str, Any]) -> str:
    """The page."""
    s = summary["settings"]
    parts = [
        "# Recursive nanochat: influence over loop horizons\n",
        f"`{summary['command']}`: {s['d']} wide, {s['prelude']} + {s['core']} + {s['coda']} blocks, loops in training "
        f"1 + Poisson log-normal of mean {s['loops']}, gradients through the last {s['bptt']} steps.\n",
        f"Influence of {s['sample']} training conversations of `{s['source']}` on {s['queries']} held-out ones, m = "
        f"{s['m']}; brackets are 95% intervals, from a bootstrap over queries or after Wilson.\n",
    ]
    for seed, run in summary["seeds"].items():
        parts += [f"## Seed {seed}\n", _accuracy(run, s["horizons"]), _influence(run), _alignment(run)]
    return "\n".join(parts)


def _accuracy(run: dict[str, Any], horizons: list[int]) -> str:
    rows = []
    for name, words in NAMES.items():
        found = run[name]["accuracy"]
        rows.append([words, *(_interval(found[str(tau)]) for tau in horizons)])
    heads = ["held-out problems answered", *(f"tau = {tau}" for tau in horizons)]
    return f"The commonest answer alone is right in {share(run['chance'])}.\n\n" + table(heads, rows)


def _influence(run: dict[str, Any]) -> str:
    """One row for each model and horizon: the last step's share, and the fit."""
    rows = []
    for name, words in NAMES.items():
        for tau, found in run[name]["horizons"].items():
            fit = found["growth"]
            grows = "too few steps" if fit["rho"] is None else f"{fit['rho']:.3f} [{fit['low']:.3f}, {fit['high']:.3f}]"
            best = "" if fit["best"] is None else f"{fit['best']} ({share(fit['sure'])} of draws)"
            lasts = [_interval(found[way]["last"]) for way in ("whole", "truncated")]
            rows.append([words, tau, *lasts, f"{found['whole']['kept']:.2f}", grows, best])
    heads = ["model", "tau", "last step, full BPTT", "last step, truncated", "not cancelled", "rho", "nearest"]
    return table(heads, rows)


def _alignment(run: dict[str, Any]) -> str:
    rows = []
    for name, words in NAMES.items():
        found = run[name]["alignment"]
        gap = f"{found['difference']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
        rows.append([words, f"{found['from start']:.3f}", f"{found['from end']:.3f}", gap])
    return table(["distance of shapes across tau", "from the start", "from the end", "difference"], rows)


def _interval(x: dict[str, Any] | None) -> str:
    return "none" if x is None else f"{100 * x['share']:.1f}% [{100 * x['low']:.1f}, {100 * x['high']:.1f}]"
