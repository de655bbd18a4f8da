"""report: the page of a nanochat run, in Markdown, the paper's claims beside ours; every number is from the summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import claims_table, share, table
from .figure import NAMES
from .findings.claims import horizons, judge, late_without_training, shown_rho
from .findings.growth import left_by_jump

Rows = list[list[str]]


def report(summary: dict[str, Any]) -> str:
    """The page."""
    s = summary["settings"]
    parts = ["# Recursive nanochat: influence over loop horizons\n", _how(summary)]
    for seed, run in summary["seeds"].items():
        parts += [f"## Seed {seed}\n" if len(summary["seeds"]) > 1 else "", _claims(run), _accuracy(run, s["horizons"])]
        if seed == str(summary["main"]):
            parts.append("![influence over loop steps, accuracy](figure.png)\n")
        parts += [_influence(run), _told(run), _alignment(run), _probes(run)]
        if seed == str(summary["main"]):
            parts.append("![probes, Jacobians, swaps](counter.png)\n")
        parts += [_swap(run), _sources(run)]
        if seed == str(summary["main"]):
            parts.append("![sources by steps](sources.png)\n")
        parts.append(_beyond(run))
    return "\n".join(part for part in parts if part)


def _how(summary: dict[str, Any]) -> str:
    s = summary["settings"]
    took = [_minutes(run) for run in summary["seeds"].values()]
    return (
        f"    {summary['command']}\n\n"
        f"Configuration `{s['config']}`: {s['d']} wide, {s['prelude']} + {s['core']} + {s['coda']} blocks; "
        f"{s['updates']} updates of mid-training on all tokens, {s['tuning_updates']} of fine-tuning on the answers; "
        f"loops in training 1 + Poisson log-normal of mean {s['loops']}, gradients through the last {s['bptt']} steps. "
        f"Influence of {s['sample']} training conversations of `{s['source']}` on {s['queries']} held-out ones, "
        f"{s['checkpoints']} checkpoints a stage, m = {s['m']}; brackets are 95% intervals, from a bootstrap over "
        f"queries or after Wilson. Controls: the untrained model; one that was trained as long with {s['loops'] + 1} "
        "loop steps in every batch. Minutes of wall time: "
        + "; ".join(f"training {a:.1f}, analyses {b:.1f}" for a, b in took)
        + ". Details: [summary.json](summary.json).\n"
    )


def _minutes(run: dict[str, Any]) -> tuple[float, float]:
    """Of training, and of everything that was asked of the models."""
    trained = [run[name]["training"] for name in ("mid", "tuned", "fixed")] + [run["fixed"]["training of mid"]]
    asked = [run[name] for name in (*NAMES, "swap", "preferences", "rewards")] + list(run["sources"].values())
    return sum(x["seconds"] for x in trained) / 60, sum(x["seconds"] for x in asked) / 60


def _claims(run: dict[str, Any]) -> str:
    many, of = late_without_training(run)
    before = [x["whole"]["last"]["share"] for x in horizons(run, "untrained").values()]
    late = (
        f"The untrained model's last step has {min(before):.0%} to {max(before):.0%} of the influence, which reaches "
        f"the trained one's interval at {many} of {of} horizons of 4 steps or more: that much of a late-heavy profile "
        "is no sign of anything learnt. "
        if of
        else ""
    )
    return (
        "## The paper's claims\n\n"
        + claims_table(judge(run), "here, fine-tuned")
        + f"\n{late}No state can say how many steps are *left*, because a state does not depend on the "
        "horizon (a test holds it): a profile that is aligned to the end comes from the backward pass. What may be "
        "counted is steps *taken*.\n"
    )


def _accuracy(run: dict[str, Any], horizons: list[int]) -> str:
    rows = [[words, *(_interval(run[name]["accuracy"][str(tau)]) for tau in horizons)] for name, words in NAMES.items()]
    heads = ["held-out problems answered", *(f"tau = {tau}" for tau in horizons)]
    best = max(run["tuned"]["accuracy"].values(), key=lambda x: x["share"])
    enough = "far better than" if best["low"] > 2 * run["chance"] else "**not** far better than"
    return (
        "## Accuracy\n\n"
        f"The commonest answer alone is right in {share(run['chance'])}. The fine-tuned model is {enough} that: its "
        f"best is {_interval(best)} (far better: the interval is above twice as much).\n\n" + table(heads, rows)
    )


def _influence(run: dict[str, Any]) -> str:
    """One row for each model and horizon: the last step's share, and the fit."""
    rows: Rows = []
    for name, words in NAMES.items():
        for tau, found in run[name]["horizons"].items():
            fit = found["growth"]
            best = _nearest(fit, found["whole"]["share"])
            lasts = [_interval(found[way]["last"]) for way in ("whole", "truncated")]
            rows.append([words, tau, *lasts, f"{found['whole']['kept']:.2f}", _rho(fit), best])
    heads = ["model", "tau", "last step, full BPTT", "last step, truncated", "not cancelled", "rho", "nearest"]
    return (
        "## Influence over steps\n\nrho: the factor from one step to the next, of the geometric curve. nearest: of "
        "geometric, linear and saturating, with two parameters each; or a jump, everything in the last step, where "
        "that leaves less.\n\n" + table(heads, rows)
    )


def _told(run: dict[str, Any]) -> str:
    """Growth beside what the model itself tells of it."""
    rows: Rows = []
    for name, words in NAMES.items():
        told = run[name]["jacobian"]
        for tau, found in run[name]["horizons"].items():
            fit = found["growth"]
            if fit["rho"] is None:
                continue
            norm = told["norm"][1 : int(tau)]
            mean = 1.0
            for x in norm:
                mean *= max(x, 1e-30) ** (1 / len(norm))
            jump = left_by_jump(found["whole"]["share"])
            lefts = [share(fit["left"]["geometric"]), share(jump)]
            lefts += [_interval(found["told"][k]) for k in ("spectral", "gradient")]
            rows.append([words, tau, _rho(fit), f"{1 / mean:.3f}", f"{1 / told['back'][tau]:.3f}", *lefts])
    change = max(run[name]["jacobian"]["changed"] for name in NAMES)
    heads = [
        "model", "tau", "rho", "1 / spectral norm", "1 / gradient's factor", "left by geometric",
        "left by a jump", "left by spectral norms", "left by gradients",
    ]  # fmt: skip
    return (
        "### Is the growth the step's own Jacobian?\n\nA gradient that goes back through a step is multiplied by the "
        "step's Jacobian, so influence would grow by one over what that does. The norm is the most it can do, by "
        f"power iteration (the last iteration changed it by at most {share(change)}); the gradient's factor is what it "
        "did to the gradient of the answer's loss. left by: the share of squares of the profile that a curve does not "
        "explain; the last three have no parameter but their scale, and are of the last checkpoint.\n\n"
        + table(heads, rows)
    )


def _alignment(run: dict[str, Any]) -> str:
    rows = []
    for name, words in NAMES.items():
        found = run[name]["alignment"]
        gap = f"{found['difference']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
        rows.append([words, f"{found['from start']:.3f}", f"{found['from end']:.3f}", gap])
    return table(["distance of shapes across tau", "from the start", "from the end", "difference"], rows)


def _probes(run: dict[str, Any]) -> str:
    rows = []
    for name, words in NAMES.items():
        found = run[name]["probe"]
        rightly = [x >= 0.5 for x in found["by step"]]
        cells = [_interval(found["index"]), share(found["index, chance"])]
        cells.append(str(rightly.index(False) if False in rightly else len(rightly)))
        cells += [_interval(found[key]) for key in ("to go", "to go, of one who knows the index")]
        rows.append([words, *cells])
    heads = [
        "states of",
        "step index read",
        "chance",
        "read in half or more, to step",
        "steps to go, R^2",
        "R^2 of one who knows the index",
    ]
    return (
        "## The loop counter\n\nLinear probes, fitted and tested on different held-out questions. A state that has "
        "settled is the same at every later step, so nothing can read an index from it.\n\n" + table(heads, rows)
    )


def _swap(run: dict[str, Any]) -> str:
    found = run["swap"]
    rows: Rows = []
    for name, x in found["swaps"].items():
        whose, t = name.split(", ")
        cells = [_interval(x["right"]), f"{x['loss']:.3f}", _value(x["loss, more than own"])]
        cells += [_value(x["loss, more than the other's same step"]), _value(x["influence"]), _interval(x["last"])]
        rows.append([f"{'its own' if whose == 'own' else 'another sequence' + chr(39) + 's'}, step {t}", *cells])
    heads = [
        "state", "answers written rightly", "loss", "more than its own", "more than another's of the same step",
        "influence on later steps, times", "last step's share",
    ]  # fmt: skip
    return (
        f"### State swap\n\nAfter step {found['at']} of {found['tau']} the state is replaced. With its own state of "
        "another step, a sequence goes on exactly as in a loop that is longer or shorter by the difference.\n\n"
        + table(heads, rows)
    )


def _sources(run: dict[str, Any]) -> str:
    parts = [
        "## Which source influences which steps of which task\n\nMean influence of a training conversation of the "
        "source on a held-out one of the task, by step, in hundredths of the largest sum of the task; brackets: 95%, "
        "from a bootstrap over both sides, of which one in twenty misses by chance. late - early: the mean of the "
        "second half of the steps minus that of the first.\n"
    ]
    for stage, found in run["sources"].items():
        rows: Rows = []
        for task, sources in found["table"].items():
            unit = max(abs(one["sum"]["value"]) for one in sources.values()) / 100 or 1.0
            for source, one in sources.items():
                rows.append([task, source, *(_cell(x, unit) for x in (*one["steps"], one["sum"], one["late"]))])
        heads = ["task", "source", *(f"step {t + 1}" for t in range(found["tau"])), "sum", "late - early"]
        parts.append(f"{NAMES[stage].capitalize()}:\n\n{table(heads, rows)}")
    return "\n".join(parts)


def _beyond(run: dict[str, Any]) -> str:
    """Losses that are not of next tokens."""
    p, r = run["preferences"], run["rewards"]
    rows: Rows = []
    same = run["tuned"]["horizons"].get(str(p["tau"]))
    named = [("cross-entropy", same and same["whole"], same and same["growth"])] if same else []
    named += [("DPO", p["profile"], p["growth"]), ("verifiable reward", r["profile"], r["growth"])]
    for name, profile, fit in named:
        if profile is None:
            rows.append([name, "no gradient", "", "", ""])
            continue
        best = _nearest(fit, profile["share"])
        rows.append([name, _interval(profile["last"]), f"{profile['kept']:.2f}", _rho(fit), best])
    used, reward = r["used"], r["reward"]
    return (
        "## Beyond next-token losses\n\n"
        f"Fine-tuned model, {p['tau']} loop steps, full BPTT; nothing was trained on these losses. DPO: "
        f"{p['pairs'][0]} training and {p['pairs'][1]} held-out pairs of a right answer and one with a wrong sum, the "
        "reference is the model before fine-tuning; the right answer is likelier in "
        f"{share(p['preferred'])} of the held-out pairs. Verifiable reward: policy gradient on sampled answers, of "
        f"which {_interval(reward['train'])} are right in training and {_interval(reward['test'])} held-out; "
        f"{used['train'][0]} of {used['train'][1]} and {used['test'][0]} of {used['test'][1]} have a gradient, the "
        "others are of questions that were always, or never, answered rightly.\n\n"
        + table(["loss", "last step", "not cancelled", "rho", "nearest"], rows)
    )


def _rho(fit: dict[str, Any]) -> str:
    if fit["rho"] is None:
        return "none"
    rho, low, high = (shown_rho(fit[key]) for key in ("rho", "low", "high"))
    return rho if rho == low == high else f"{rho} [{low}, {high}]"


def _nearest(fit: dict[str, Any], shares: Sequence[float]) -> str:
    if fit["best"] is None:
        return ""
    jump = left_by_jump(shares) <= fit["left"][fit["best"]]
    return "a jump at the last step" if jump else f"{fit['best']} ({share(fit['sure'])} of draws)"


def _interval(x: dict[str, Any] | None) -> str:
    if x is None or x["share"] is None:
        return "none"
    return f"{100 * x['share']:.1f}% [{100 * x['low']:.1f}, {100 * x['high']:.1f}]"


def _value(x: dict[str, Any] | None) -> str:
    return "none" if x is None else f"{x['value']:.3f} [{x['low']:.3f}, {x['high']:.3f}]"


def _cell(x: dict[str, Any], unit: float) -> str:
    value, low, high = (round(x[key] / unit) for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"
