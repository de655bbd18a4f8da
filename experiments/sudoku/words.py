"""Numbers of `findings` as words of a report."""

from __future__ import annotations

from typing import Any


def iqr(x: dict[str, Any]) -> str:
    """Median and quartiles."""
    return "none" if x["median"] is None else f"{x['median']:.3g} [{x['low']:.3g}, {x['high']:.3g}]"


def interval(x: dict[str, Any]) -> str:
    """A share with its interval, in percent."""
    if x["share"] is None:
        return "none"
    return f"{100 * x['share']:.1f}% [{100 * x['low']:.1f}, {100 * x['high']:.1f}]"


def p_value(x: dict[str, Any]) -> str:
    """A p-value."""
    p = x["p"]
    return "no test" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def rho(x: dict[str, Any]) -> str:
    """A rank correlation with its p-value."""
    return "none" if x["rho"] is None else f"{x['rho']:.3f} ({p_value(x)})"


def times(x: dict[str, Any]) -> str:
    """Of medians, hard / easy."""
    easy, hard = x["easy"]["median"], x["hard"]["median"]
    return "none" if not easy or hard is None else f"{hard / easy:.2f}"
