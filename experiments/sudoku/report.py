"""report: summary.json as one page of Markdown, the paper's numbers beside ours."""

from __future__ import annotations

from typing import Any

from ..base import claims_table, share, table
from .figure import blanks
from .findings.claims import LEVEL, judge
from .words import interval, iqr, p_value, rho, times

Rows = list[tuple[str, ...]]


def report(summary: dict[str, Any]) -> str:
    """One page. Every number in it is read from the summary."""
    s, main = summary["settings"], summary["seeds"][str(summary["main"])]
    parts = [
        f"# Sudoku {s['size']}x{s['size']}: loop compute, memorisation, and when influence acts\n",
        _how(summary),
        _claims(summary, main),
        "![accuracy, energy, stopping, depth, controls](figure.png)\n",
        _accuracy(summary),
        "![training](training.png)\n",
        _table(summary, main),
        _horizon(main),
        _predictors(main),
        _equal_loss(main),
        _controls(summary, main),
    ]
    return "\n".join(parts)


def _how(summary: dict[str, Any]) -> str:
    s, runs = summary["settings"], list(summary["seeds"].values())
    control = summary["controls"].get("trained on permuted labels")
    trained = [*runs, *([control] if control else [])]
    analysis = sum(run["seconds"] for run in trained) + summary["controls"]["seconds"]
    every = "after every loop step" if s["every"] else "after the last loop step"
    renamed = ""
    if s["relabel"]:
        renamed = (
            "Each time a board is met in training, its digits are renamed at random; influence is that of the board in "
            "its own digits. "
        )
    return (
        f"    {summary['command']}\n\n"
        f"Configuration `{s['config']}`: {_boards(s)}, the easiest "
        f"{share(s['train_share'])} for training; d={s['d']}, {s['heads']} heads, one block, {s['loops']} loop steps "
        f"on average (Poisson log-normal, at most {2 * s['loops']}; at the beginning {s['first_loops']} on average), "
        f"loss {every}; AdamW at {s['rate']:g}, batch {s['batch']}, {s['updates']} updates. {renamed}"
        f"Influence at {s['loops']} loop steps, m={s['m']}, over {len(runs[0]['checkpoints'])} checkpoints; the last "
        f"holds averaged weights. Seeds {', '.join(summary['seeds'])}. Training took {_minutes(runs)}"
        f"{', that of the control on permuted labels ' + _minutes([control]) if control else ''}, on one thread; all "
        f"analyses took {analysis / 60:.0f} minutes. {_one_seed(runs)}Details: [summary.json](summary.json).\n"
    )


def _minutes(runs: list[dict[str, Any]]) -> str:
    wall, cpu = (", ".join(f"{run['training'][key] / 60:.0f}" for run in runs) for key in ("seconds", "cpu"))
    return f"{wall} minutes of wall time ({cpu} of CPU time)"


def _one_seed(runs: list[dict[str, Any]]) -> str:
    if len(runs) > 1:
        return ""
    cost = (runs[0]["training"]["cpu"] + runs[0]["seconds"]) / 60
    return (
        "This is one seed: intervals and p-values are of its boards, and what another seed would show is not known. "
        f"Further ones, `--seeds 0,1,2` in the same folder, take about {cost:.0f} minutes each. "
    )


def _boards(s: dict[str, Any]) -> str:
    return "SATNet's 10000 boards" if s["satnet"] else f"{s['boards']} generated boards"


def _claims(summary: dict[str, Any], main: dict[str, Any]) -> str:
    claims = judge(main, summary["controls"], summary["settings"]["loops"])
    e = main["at equal loss"]
    return (
        "## The paper's claims\n\n"
        + claims_table(claims, f"here, seed {summary['main']}")
        + f"\nAn effect counts if a test finds it at {LEVEL:g} and it has the paper's sign. What a control shows, too, "
        "is no finding about learning. And where larger losses explain an effect, it is none of memory: self-influence "
        f"goes with blanks by {rho(e['self with blanks'])}, and by {rho(e['self with blanks, loss equal'])} at equal "
        "loss.\n"
    )


def _accuracy(summary: dict[str, Any]) -> str:
    loops = summary["settings"]["loops"]
    marks = sorted({max(1, loops // 4), max(1, loops // 2), loops, 2 * loops})
    rows: Rows = []
    for seed, run in summary["seeds"].items():
        for name, part in run["panel A"].items():
            cells = [interval(part["curve"][t - 1]) for t in marks]
            rows.append((seed, "all" if name == "all" else blanks(name), str(part["boards"]), *cells))
    return (
        "## Panel A: test boards solved\n\n"
        "The test boards are the hardest; none of their kind was trained on. Brackets: 95% intervals.\n\n"
        + table(("seed", "test boards", "count", *(f"{t} loop steps" for t in marks)), rows)
    )


def _table(summary: dict[str, Any], main: dict[str, Any]) -> str:
    t, loops = main["table"], summary["settings"]["loops"]
    easy, hard = (blanks("{}-{}".format(*t["groups"]["train"][k])) for k in (0, -1))
    on = t["on test"]
    late = f"SDI late mass (steps {loops // 2 + 1}-{loops}; paper 17-32)"

    def pair(x: dict[str, Any]) -> tuple[str, str]:
        return share(x["easy"]), share(x["hard"])

    rows: Rows = [
        ("self-influence, median [IQR]", "0.225 [0.155, 0.367]", "0.451 [0.303, 0.787]",
         iqr(t["self"]["easy"]), iqr(t["self"]["hard"]), p_value(t["self, hard against easy"])),
        ("cross mass C(z), median [IQR]", "3.07 [2.60, 3.82]", "4.43 [3.77, 5.80]",
         iqr(t["C"]["easy"]), iqr(t["C"]["hard"]), p_value(t["C, hard against easy"])),
        ("on easy test boards: share of the mass of TracIn", "28.9%", "37.7%",
         *pair(on["easy"]["share"]), p_value(on["easy"]["share, hard against easy"])),
        (f"on easy test boards: {late}", "24.0%", "24.9%",
         *pair(on["easy"]["late"]), p_value(on["easy"]["late, hard against easy"])),
        ("on hard test boards: share of the mass of TracIn", "27.9%", "38.9%",
         *pair(on["hard"]["share"]), p_value(on["hard"]["share, hard against easy"])),
        (f"on hard test boards: {late}", "24.3%", "25.3%",
         *pair(on["hard"]["late"]), p_value(on["hard"]["late, hard against easy"])),
    ]  # fmt: skip
    heads = ("", "paper, easy train", "paper, hard train", f"here, {easy}", f"here, {hard}", "p")
    tests = " and ".join(blanks("{}-{}".format(*t["groups"]["test"][k])) for k in (0, -1))
    counts = t["counts"]
    per = "; ".join(
        f"{name} test: {share(x['share per board']['easy'])} and {share(x['share per board']['hard'])}"
        for name, x in on.items()
    )
    q, c = t["quartiles"], main["conservation"]
    claims: Rows = [
        ("self-influence with blanks, Spearman", "0.428", rho(t["self with blanks"])),
        ("C(z) with blanks, Spearman", "0.500", rho(t["C with blanks"])),
        ("C(z) with self-influence, Spearman", "0.919", rho(t["C with self"])),
        ("lowest quarter of self-influence within the highest of C(z)", "0",
         f"{q['found']} of {q['of']} ({q['chance']:.0f} by chance)"),
        ("hard / easy, median self-influence", "2.0", times(t["self"])),
        ("hard / easy, median C(z)", "1.44", times(t["C"])),
        ("largest gap between TracIn and the sum of its steps, last checkpoint, 64 boards", "not stated",
         f"{c['largest']:.1e}, of scores up to {c['of']:.1e}"),
    ]  # fmt: skip
    seeds = _all_seeds(summary) if len(summary["seeds"]) > 1 else ""
    return (
        f"## The table, seed {summary['main']}\n\n{counts['easy']} easy and {counts['hard']} hard training boards; "
        f"easy and hard test boards have {tests} ({on['easy']['boards']} and {on['hard']['boards']} boards). p-values: "
        "Welch's t-test for the first two rows, paired t-tests for the others. A share depends on how many boards a "
        f"group has; per training board, easy and hard, it is, {per}.\n\n"
        + table(heads, rows)
        + "\n"
        + table(("", "paper", "here"), claims)
        + seeds
    )


def _all_seeds(summary: dict[str, Any]) -> str:
    rows: Rows = []
    for seed, run in summary["seeds"].items():
        t = run["table"]
        on = t["on test"]
        rows.append(
            (
                seed, times(t["self"]), rho(t["self with blanks"]), rho(t["C with blanks"]), rho(t["C with self"]),
                str(t["quartiles"]["found"]),
                *(f"{share(on[k]['late']['easy'])}, {share(on[k]['late']['hard'])}" for k in ("easy", "hard")),
            )
        )  # fmt: skip
    heads = (
        "seed", "hard / easy, self", "self with blanks", "C with blanks", "C with self", "quartiles",
        "late mass, easy test", "late mass, hard test",
    )  # fmt: skip
    return "\n" + table(heads, rows)


def _horizon(main: dict[str, Any]) -> str:
    h = main["horizon"]
    rows: Rows = [
        (f"{float(level):.0%}", iqr(x), rho(x["with needs"]), share(x["before it is solved"]))
        for level, x in h["horizon"].items()
    ]
    ways: Rows = [(name, interval(x["solved"]), f"{x['loops']:.1f}") for name, x in h["ways"].items()]
    return (
        "## Influence horizon against the loop steps a board needs\n\n"
        "The horizon is the first step by which a share of the board's SDI energy has acted. A board needs the loop "
        f"steps from which on its answer is right to the end: {iqr(h['needs'])}; {h['never solved']} of the sampled "
        "test boards are not solved. Stopping at the horizon is no rule for use, for the influence is of the right "
        "answer.\n\n"
        + table(("share", "horizon, median [IQR]", "with loops needed, Spearman", "boards it ends too early for"), rows)
        + "\n"
        + table(("stop", "solved", "loop steps, mean"), ways)
    )


def _predictors(main: dict[str, Any]) -> str:
    p = main["predictors"]
    rows: Rows = []
    for name in ("late mass", "loops needed"):
        x = p[name]
        gap = "none" if x["difference"] is None else f"{x['difference']:+.2f} [{x['low']:+.2f}, {x['high']:+.2f}]"
        rows.append((name, rho(x["a"]), rho(x["b"]), gap))
    return (
        "## What predicts late mass: missing cells or rounds of hidden singles?\n\n"
        "Spearman over the sampled test boards; the last column is the difference of the absolute values with a "
        f"95% bootstrap interval. Late mass with the loop steps needed: {rho(p['late mass with loops needed'])}.\n\n"
        + table(("", "missing cells", "rounds", "missing cells minus rounds"), rows)
    )


def _equal_loss(main: dict[str, Any]) -> str:
    e = main["at equal loss"]
    m = e["matched"]
    ratio = "no pairs" if m["ratio"] is None else f"{m['ratio']:.2f} ({m['pairs']} pairs, {p_value(m)})"
    rows: Rows = [
        ("loss with blanks, Spearman", rho(e["loss with blanks"])),
        ("self-influence with loss, Spearman", rho(e["self with loss"])),
        ("self-influence with blanks", rho(e["self with blanks"])),
        ("the same, loss held equal (partial)", rho(e["self with blanks, loss equal"])),
        ("C(z) with blanks", rho(e["C with blanks"])),
        ("the same, loss held equal (partial)", rho(e["C with blanks, loss equal"])),
        ("hard / easy self-influence, geometric means", f"{e['all pairs']['ratio']:.2f}"),
        ("hard / easy loss, geometric means", f"{e['all pairs']['loss']:.2f}"),
        ("hard / easy self-influence in pairs of nearly equal loss", ratio),
    ]
    return (
        "## Are hard boards memorised more, or do they have larger losses?\n\n"
        "Self-influence is a squared gradient, and larger losses have larger gradients. The loss of a training board "
        "is averaged over checkpoints by their rates, as its influence is.\n\n" + table(("", "here"), rows)
    )


def _controls(summary: dict[str, Any], main: dict[str, Any]) -> str:
    models = {"trained": main} | {
        name: x for name, x in summary["controls"].items() if isinstance(x, dict) and "table" in x
    }
    rows: Rows = []
    for name, x in models.items():
        t, on = x["table"], x["table"]["on test"]["hard"]
        curves = [part["late mass"]["median"] for part in x["panel B"]]
        rows.append(
            (
                name, times(t["self"]), rho(t["self with blanks"]), rho(t["C with self"]),
                str(t["quartiles"]["found"]),
                f"{share(on['share']['easy'])}, {share(on['share']['hard'])}",
                f"{share(on['late']['easy'])}, {share(on['late']['hard'])} ({p_value(on['late, hard against easy'])})",
                f"{share(curves[0])}, {share(curves[-1])}",
            )
        )  # fmt: skip
    heads = (
        "weights and labels", "hard / easy, self", "self with blanks", "C with self", "quartiles",
        "share on hard test, easy and hard train", "late mass on hard test, easy and hard train",
        "late mass, easy and hard test",
    )  # fmt: skip
    m = summary["controls"]["moved blanks"]
    moved: Rows = [
        ("blanks in common with the twin", iqr(m["blanks in common"])),
        ("TracIn over training boards: a board and its twin, correlation", iqr(m["tracin, a board and its twin"])),
        ("a board and the twin of another one as difficult", iqr(m["tracin, a board and another's twin"])),
        ("difference", f"{m['twin against another' + chr(39) + 's twin']['difference']:+.3f} "
         f"({p_value(m['twin against another' + chr(39) + 's twin'])})"),
        ("late mass of a board with that of its twin, Spearman", rho(m["late mass, a board with its twin"])),
        ("change of late mass with change of blanks", rho(m["late mass with blanks, differences"])),
        ("change of late mass with change of rounds", rho(m["late mass with rounds, differences"])),
    ]  # fmt: skip
    return (
        "## Controls\n\n"
        "What shows up as well without training, or with labels that nobody can learn, is no finding about learning. "
        "`permuted labels`: the trained weights, but every board has the solution of another with as many blanks.\n\n"
        + table(heads, rows)
        + "\nMoved blanks: test boards with the same solution and other blanks.\n\n"
        + table(("", "here"), moved)
    )
