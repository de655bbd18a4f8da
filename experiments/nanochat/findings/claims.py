"""The paper's claims about recursive nanochat beside what a run shows: reproduced or not, by rules stated here.

Each claim is judged on the fine-tuned model, at horizons of at least FEWEST steps, by intervals where there are any.
"""

from __future__ import annotations

from typing import Any

from ...base import Claim
from .growth import FEWEST, MOST_RHO, left_by_jump

HALF = 0.5


def judge(run: dict[str, Any]) -> list[Claim]:
    """All claims. run: what summary.json holds of a seed."""
    return [last_step(run), geometric(run), aligned(run), plateau(run), counter(run)]


def horizons(run: dict[str, Any], name: str) -> dict[int, dict[str, Any]]:
    """What is said of a model at each horizon that is long enough, where there is influence at all."""
    found = {int(tau): x for tau, x in run[name]["horizons"].items()}
    return {tau: x for tau, x in found.items() if tau >= FEWEST and x["whole"]["last"] is not None}


def last_step(run: dict[str, Any]) -> Claim:
    """Reproduced if the last step has half of the influence or more at most horizons."""
    last = [x["whole"]["last"]["share"] for x in horizons(run, "tuned").values()]
    many = sum(x >= HALF for x in last)
    shown = f"{min(last):.0%} to {max(last):.0%}; at least half at {many} of {len(last)} horizons" if last else "none"
    return Claim("the last step alone usually has at least 50% of the influence", shown, 2 * many > len(last))


def geometric(run: dict[str, Any]) -> Claim:
    """Reproduced if at most horizons rho is above 1 with its interval, and geometric nearer than all of its rivals.

    These are linear and saturating curves, and a jump: everything in the last step.
    """
    found = horizons(run, "tuned").values()
    jumps = [left_by_jump(x["whole"]["share"]) <= x["growth"]["left"]["geometric"] for x in found]
    fits = [x["growth"] for x in found]
    many = sum(
        fit["best"] == "geometric" and fit["low"] > 1 and not jump for fit, jump in zip(fits, jumps, strict=True)
    )
    rho = [fit["rho"] for fit in fits]
    shown = (
        f"rho {shown_rho(min(rho))} to {shown_rho(max(rho))}; geometric, with rho surely above 1, at {many} of "
        f"{len(fits)} horizons; a jump at the last step is nearer at {sum(jumps)}"
        if fits
        else "none"
    )
    return Claim("influence grows nearly exponentially from step to step", shown, 2 * many > len(fits))


def shown_rho(rho: float) -> str:
    """
    >>> shown_rho(1.5), shown_rho(100.0)
    ('1.50', 'over 54')
    """
    return f"{rho:.2f}" if rho < MOST_RHO * (1 - 1e-9) else f"over {int(MOST_RHO)}"


def aligned(run: dict[str, Any]) -> Claim:
    """Reproduced if shapes surely agree better counted from the last step than from the first."""
    gap = run["tuned"]["alignment"]
    shown = f"closer from the end by {gap['difference']:.2f} [{gap['low']:.2f}, {gap['high']:.2f}] of 1"
    return Claim("influence is built up in the last steps, however many steps there are", shown, gap["low"] > 0)


def plateau(run: dict[str, Any]) -> Claim:
    """Reproduced if intervals of accuracy at all horizons above 4 are above chance and have a value in common."""
    found = {int(tau): x for tau, x in run["tuned"]["accuracy"].items() if int(tau) > FEWEST}
    if not found:
        return Claim("accuracy is flat for all tau > 4", "none", False)
    shown = "; ".join(f"{x['share']:.0%} at {tau}" for tau, x in found.items())
    low = [x["low"] for x in found.values()]
    flat = run["chance"] < min(low) and max(low) <= min(x["high"] for x in found.values())
    return Claim("accuracy is flat for all tau > 4", shown, flat)


def counter(run: dict[str, Any]) -> Claim:
    """Reproduced if the step index is surely read better from the trained states than from those of both controls."""
    read = {name: run[name]["probe"]["index"] for name in ("tuned", "untrained", "fixed")}
    shown = "step index read from held-out states: " + ", ".join(
        f"{words} {read[name]['share']:.0%} [{read[name]['low']:.0%}, {read[name]['high']:.0%}]"
        for name, words in (("tuned", "trained"), ("untrained", "untrained"), ("fixed", "fixed loop count"))
    )
    chance = run["tuned"]["probe"]["index, chance"]
    best = max(read["untrained"]["high"], read["fixed"]["high"], chance)
    return Claim("the state implicitly counts loop steps", f"{shown}; chance {chance:.0%}", read["tuned"]["low"] > best)


def late_without_training(run: dict[str, Any]) -> tuple[int, int]:
    """At how many horizons the untrained model's last step has a share within, or above, the trained one's interval."""
    trained, untrained = horizons(run, "tuned"), horizons(run, "untrained")
    both = [tau for tau in trained if tau in untrained]
    many = sum(untrained[tau]["whole"]["last"]["high"] >= trained[tau]["whole"]["last"]["low"] for tau in both)
    return many, len(both)
