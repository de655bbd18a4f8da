"""report: summary.json as one page of Markdown, the paper's numbers beside ours."""

from __future__ import annotations

from typing import Any

from ..base import share, table
from .periods import ALPHA
from .strings import MIXED, PROBES
from .training import CHECKED


def report(summary: dict[str, Any]) -> str:
    """One page. Every number in it is read from the summary."""
    main = summary["seeds"][str(summary["main"])]
    parts = [
        "# Parity: from an influence trajectory to a circuit\n",
        _how(summary),
        "![SDI, margin, states](figure.png)\n",
        _beside_the_paper(summary, main),
        _seeds(summary),
        "![training](training.png)\n",
        _controls(summary),
        "![controls](controls.png)\n",
        _automata(summary),
        _tests(summary),
    ]
    return "\n".join(parts)


def _how(summary: dict[str, Any]) -> str:
    s = summary["settings"]
    runs = summary["seeds"].values()
    wall = [f"{run['training']['seconds'] / 60:.0f}" for run in runs]
    cpu = [f"{run['training']['cpu'] / 60:.1f}" for run in runs]
    analysis = sum(run["seconds"] for run in [*runs, *summary["controls"].values()]) + summary["tests"]["seconds"]
    return (
        f"    {summary['command']}\n\n"
        f"Configuration `{s['config']}`: d={s['d']}, {s['heads']} heads, lengths 2 to {s['longest']}, AdamW at "
        f"{s['rate']:g}, batch {s['batch']}; m={s['m']}. A run's last checkpoint holds averaged "
        f"weights, all others the weights of their step, as they were. Seeds {', '.join(summary['seeds'])}. "
        f"Training took {', '.join(wall)} minutes of wall time ({', '.join(cpu)} of CPU time on one thread), all "
        f"analyses {analysis / 60:.0f} minutes. Details: [summary.json](summary.json).\n"
    )


def _beside_the_paper(summary: dict[str, Any], main: dict[str, Any]) -> str:
    s, r, proxy = summary["settings"], main["probes"]["01"], main["proxy"]
    n = s["test"]
    which = "able" if "able" in r["sdi"] else "all"
    lag, correlation = r["lag"][which]
    able = sum(point["accuracy"] >= 0.99 for point in main["checkpoints"])
    zero = all(run["zero after the read-out"] for run in summary["seeds"].values())
    test = proxy["test"]
    rows = [
        (f"right at {n} bits", "100%", share(main["accuracy"][str(n)])),
        (f"period of SDI, {able} checkpoints that can do {n} bits", "4", _period(r["sdi_period"].get("able"))),
        ("period of SDI, all checkpoints", "4", _period(r["sdi_period"]["all"])),
        ("period of SDI, last checkpoint", "", _period(r["sdi_period"]["last"])),
        ("period of the margin", "4", _period(r["margin_period"])),
        ("period of the k-means states, later half", "4", str(r["state_period"] or "none")),
        (f"margin jumps after SDI peaks ({which})", "1 step", f"{lag} steps (correlation {correlation:.2f})"),
        ("mean cos(h[t], h[t+4])", "about 0.95", _cosine(r)),
        ("transitions", "one 4-cycle, one self-loop", _cycle(r)),
        ("proxy, alternating, up to the training length", "100%", share(proxy["in distribution"]["accuracy"])),
        ("proxy, alternating, longer", "100%", share(proxy["out of distribution"]["accuracy"])),
        ("proxy, alternating, strings not calibrated on", "", share(proxy["truly held out"]["accuracy"])),
        (f"proxy, real test set of {n} bits", "about 93%", share(test["accuracy"])),
        (
            "proxy, test states within the 95th percentile", "",
            f"{share(test['selective'])} of the {share(test['coverage'])} there",
        ),
        ("proxy agrees with the model on the test set", "", share(proxy["agrees with the model"])),
        ("SDI after the read-out", "zero", "exactly zero" if zero else "NOT zero"),
        ("audit", "", "passed on every checkpoint, both sides (a run stops otherwise)"),
    ]  # fmt: skip
    return f"## Beside the paper, seed {summary['main']}\n\n" + table(("", "paper", "here"), rows)


def _seeds(summary: dict[str, Any]) -> str:
    s = summary["settings"]
    lengths = list(next(iter(summary["seeds"].values()))["accuracy"])
    rows = []
    for seed, run in summary["seeds"].items():
        raw = run["training"]["checks"][-1]["test_raw"]
        r, proxy = run["probes"]["01"], run["proxy"]
        rows.append(
            (
                seed, str(run["training"]["steps"]), *(share(run["accuracy"][n]) for n in lengths), share(raw),
                _period(r["sdi_period"].get("able")), _period(r["sdi_period"]["all"]), _cosine(r),
                share(proxy["test"]["accuracy"]),
            )
        )  # fmt: skip
    heads = (
        "seed", "steps", *(f"{n} bits" for n in lengths), f"{s['test']}, not averaged, of {CHECKED}",
        "period, able", "period, all", "cos at 4", "proxy on test",
    )  # fmt: skip
    return "## All seeds\n\n" + table(heads, rows)


def _controls(summary: dict[str, Any]) -> str:
    models = {f"seed {seed}": run for seed, run in summary["seeds"].items()} | summary["controls"]
    rows = []
    for name, run in models.items():
        for pattern in PROBES:
            r = run["probes"][pattern]
            which = "able" if "able" in r["sdi"] else "all"
            rows.append(
                (
                    name, pattern if pattern == MIXED else f"{pattern}...", str(r["true_period"] or "none"),
                    f"{r['turn_period']:.3g}" if r["turn_period"] else "none", "right" if r["right"] else "wrong",
                    str(r["state_period"] or "none"), _period(r["margin_period"]), _period(r["sdi_period"][which]),
                    "yes" if r["matches"][which] else "**no**", "yes" if r["matches"]["all"] else "**no**",
                )
            )  # fmt: skip
    heads = (
        "model", "probe", "automaton", "turn", "answer", "states", "margin", "SDI", "SDI matches",
        "over all checkpoints",
    )  # fmt: skip
    return (
        "## Controls: does the SDI period match the automaton's?\n\n"
        "The SDI column sums over the checkpoints that can do the test length, or over all where none can. A period "
        f"counts if its autocorrelation beats both kinds of surrogate at {ALPHA:g}; in brackets, the lag that did not. "
        "An automaton's period of 1 or none is matched by finding none, which any curve without a rhythm does: such a "
        "row alone says little. The shuffled control "
        f"was trained for {summary['controls']['shuffled labels']['training']['steps']} steps. "
        "`mixed` has the bits of 0101... in another order: an automaton has no period there, a "
        "turning state has 4.\n\n" + table(heads, rows)
    )


def _automata(summary: dict[str, Any]) -> str:
    seeds = summary["seeds"]
    names = list(next(iter(seeds.values()))["rotation"])
    rows = []
    for name in names[1:]:
        values = [run["rotation"][name] for run in seeds.values()]
        shown = [share(v) if name.startswith("says") else "none" if v is None else f"{v:.3f}" for v in values]
        rows.append((name, *shown))
    machines = [
        (
            f"a machine of {a['states']} k-means states that reads the bits, without the model: right",
            *(share(run["automata"][k]["accuracy"]) for run in seeds.values()),
        )
        for k, a in enumerate(next(iter(seeds.values()))["automata"])
    ]
    return (
        "## An automaton, or a turn?\n\n"
        "An automaton has the running parity of the bits in its state. A rival has the same period on every periodic "
        "probe: a state that turns by the share of ones at each step, whatever their order (period 2n / ones). Read at "
        "every step of every test string, where 50% is chance:\n\n"
        + table(("on the test set", *(f"seed {seed}" for seed in seeds)), [*rows, *machines])
    )


def _tests(summary: dict[str, Any]) -> str:
    t = summary["tests"]
    c = t["count"]
    rows = [
        (name, f"{value:.3g}", f"{t['median self-influence'][name]:.3g}")
        for name, value in t["mean influence on a test"].items()
    ]
    return (
        f"## Influence on the test set and on training itself\n\n{c['train']} training strings, {c['test']} test "
        f"strings, {c['checkpoints']} checkpoints, seed {summary['main']}; after the read-out "
        f"{'exactly zero' if t['zero after the read-out'] else 'NOT zero'}.\n\n"
        + table(("training strings", "mean influence on a test string", "median self-influence"), rows)
    )


def _period(p: dict[str, Any] | None) -> str:
    if p is None:
        return "no such checkpoint"
    if p["found"]:
        return f"{p['found']} (p = {max(p['p_phase'], p['p_red']):.3f})"
    return "none" if p["lag"] is None else f"none ({p['lag']}, p = {max(p['p_phase'], p['p_red']):.2f})"


def _cosine(r: dict[str, Any]) -> str:
    cosines = r["cosines"]
    if len(cosines) < 4:
        return "too short"
    return f"{cosines[3]:.3f} (at lags 1 to 3: {', '.join(f'{x:.2f}' for x in cosines[:3])})"


def _cycle(r: dict[str, Any]) -> str:
    loops = sum(row[k] > 0 for k, row in enumerate(r["P"]))
    sure = sum(max(row) == 1 for row in r["P"])
    return f"{len(r['cycle'])}-cycle; {sure} of {len(r['P'])} rows certain, {loops} with a self-loop"
