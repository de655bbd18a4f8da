"""The paper's claims about Sudoku beside what a run shows: reproduced or not, by rules stated here.

Claims about training boards are asked of the controls as well: what these show, too, is no finding about learning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base import Claim, share
from ..words import interval, rho, times

LEVEL = 0.05  # of a test that decides a claim
STRONG = 0.8  # a rank correlation that is called very strong
Table = dict[str, Any]


def judge(run: dict[str, Any], controls: dict[str, Any], loops: int) -> list[Claim]:
    """All claims, on one seed. run: what summary.json holds of it. controls: the same of controls. loops: the mean."""
    of_boards = [
        ("training boards with more blanks have more self-influence", more_self),
        ("they have more cross mass C(z), too", more_mass),
        ("C(z) goes with self-influence, very strongly; no board of the lowest quarter of self-influence is in the "
         "highest of C(z)", both_together),
        ("hard training boards have a larger share of the mass on every test board", larger_share),
        ("hard training boards act later in the loop", act_later),
    ]  # fmt: skip
    return [
        more_loops(run, loops),
        plateau(run, loops),
        slower_decay(run),
        *(_with_controls(words, rule, run, controls) for words, rule in of_boards),
    ]


def more_loops(run: dict[str, Any], loops: int) -> Claim:
    """Reproduced if with half the loop steps the hardest boards are solved surely less often than the easiest."""
    easy, hard = _ends(run, max(1, loops // 2))
    shown = f"after {max(1, loops // 2)} loop steps, easiest {interval(easy)}, hardest {interval(hard)}"
    return Claim("harder boards lose more when there are fewer loop steps", shown, hard["high"] < easy["low"])


def plateau(run: dict[str, Any], loops: int) -> Claim:
    """Reproduced if accuracy surely rises from half the mean number of loop steps to it, and not surely after it."""
    curve = run["panel A"]["all"]["curve"]
    half, mean, twice = (curve[t - 1] for t in (max(1, loops // 2), loops, 2 * loops))
    shown = f"{interval(half)} at {max(1, loops // 2)}, {interval(mean)} at {loops}, {interval(twice)} at {2 * loops}"
    flat = twice["low"] <= mean["high"]
    return Claim(
        "more loop steps help up to the mean of training, not beyond", shown, half["high"] < mean["low"] and flat
    )


def slower_decay(run: dict[str, Any]) -> Claim:
    """Reproduced if the late mass of test boards grows with their blanks."""
    curves = run["panel B"]
    found = run["predictors"]["late mass"]["a"]
    late = " and ".join(f"{share(part['late mass']['median'])}" for part in (curves[0], curves[-1]))
    shown = f"late mass, median of easiest and hardest: {late}; with blanks {rho(found)}"
    return Claim(
        "influence on harder test boards decays more slowly over the loop", shown, _sure(found["rho"], found["p"])
    )


def more_self(t: Table) -> tuple[str, bool]:
    """Reproduced if the rank correlation with blanks is surely positive."""
    found = t["self with blanks"]
    return f"hard / easy {times(t['self'])}; with blanks {rho(found)}", _sure(found["rho"], found["p"])


def more_mass(t: Table) -> tuple[str, bool]:
    """Reproduced if the rank correlation with blanks is surely positive."""
    found = t["C with blanks"]
    return f"hard / easy {times(t['C'])}; with blanks {rho(found)}", _sure(found["rho"], found["p"])


def both_together(t: Table) -> tuple[str, bool]:
    """Reproduced if the rank correlation is at least STRONG and no board is in both quarters."""
    found, quarters = t["C with self"], t["quartiles"]["found"]
    strong = found["rho"] is not None and found["rho"] >= STRONG
    return f"{rho(found)}; {quarters} boards in both quarters", strong and quarters == 0


def larger_share(t: Table) -> tuple[str, bool]:
    """Reproduced if the share is surely larger on easy and on hard test boards, and not for the group's size alone."""
    shown, larger = _larger(t, "share")
    per_board = [t["on test"][name]["share per board"] for name in ("easy", "hard")]
    return shown, larger and all((x["hard"] or 0) > (x["easy"] or 0) for x in per_board)


def act_later(t: Table) -> tuple[str, bool]:
    """Reproduced if the late mass is surely larger on easy and on hard test boards."""
    return _larger(t, "late")


def _larger(t: Table, key: str) -> tuple[str, bool]:
    on = t["on test"]
    tests = [on[name][f"{key}, hard against easy"] for name in ("easy", "hard")]
    shown = "; ".join(
        f"on {name} test boards {share(on[name][key]['easy'])} of easy, {share(on[name][key]['hard'])} of hard ones"
        for name in ("easy", "hard")
    )
    return shown, all(_sure(x["difference"], x["p"]) for x in tests)


def _with_controls(
    words: str, rule: Callable[[Table], tuple[str, bool]], run: dict[str, Any], controls: dict[str, Any]
) -> Claim:
    shown, holds = rule(run["table"])
    tables = {name: x["table"] for name, x in controls.items() if isinstance(x, dict) and "table" in x}
    also = [name for name, t in tables.items() if rule(t)[1]]
    return Claim(words, shown, holds, ", ".join(also) or "none")


def _ends(run: dict[str, Any], loops: int) -> tuple[dict[str, float], dict[str, float]]:
    """Accuracies of the easiest and of the hardest test boards."""
    bins = [part for name, part in run["panel A"].items() if name != "all"]
    return bins[0]["curve"][loops - 1], bins[-1]["curve"][loops - 1]


def _sure(effect: float | None, p: float | None) -> bool:
    """A positive effect that chance does not explain."""
    return effect is not None and p is not None and effect > 0 and p < LEVEL
