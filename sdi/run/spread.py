"""spread: one byte budget over the parameters, more of it where gradients are large.

The sketches of the parameters p are independent, so their errors add. Over all training examples i, queries j and steps
t, the bound on the squared error of SDI is

    sum_p  a_p / m_p * c_p,   c_p = (sum_i |g_ip|^2) (sum_jt |phi_jtp|^2),   a = 6 for TensorSketch, 2 for CountSketch

(the part in 1 / m^2 is left out: it is a thousandth at m = 1024). Lagrange: with sum_p m_p fixed, it is smallest at
m_p proportional to sqrt(a_p c_p), where it is (sum_p sqrt(a_p c_p))^2 / M; one m for all P parameters gives
P sum_p a_p c_p / M, never less, by Cauchy and Schwarz.

A parameter kept whole costs its size and has no error. Those that would get at least their size are the ones with the
largest sqrt(a_p c_p) / size_p, so they are sought along that order, and the best set is taken.

Widths are numbers with no prime factor above 5, for which the FFT is fast.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from math import prod

import numpy as np

from sdi.sketch.protocol import check_m
from sdi.store.features import Features


def spread(pilot: Features, m: int) -> dict[str, int]:
    """A sketch width for each parameter, larger where gradients are large; in all no more numbers than one m for each.

    pilot: features of some examples like those to come, from a sketch of any width (a sketch keeps norms well enough),
    step-resolved if steps will be scored.
    m: the width whose numbers are spread.

    Returns widths by parameter name, for `SketchMap.draw` or `attribute` as their m.
    """
    check_m(m)
    return best_widths(costs(pilot), {b.name: prod(b.shape) for b in pilot.blocks}, m)


def best_widths(cost: Mapping[str, float], sizes: Mapping[str, int], m: int) -> dict[str, int]:
    """The widths that `share` gives for as many numbers as one m takes; or one m for all, if that has less error.

    No width is below m / 32: error bars need norms, which too few numbers do not show.
    """
    equal = {name: min(m, size) for name, size in sizes.items()}
    widths = share(cost, sizes, sum(equal.values()), max(1, m // 32))

    def error(of: Mapping[str, int]) -> float:
        return sum(cost[name] / k for name, k in of.items() if k < sizes[name])

    return widths if error(widths) <= error(equal) else equal


def costs(pilot: Features) -> dict[str, float]:
    """a_p c_p of each parameter (see the module's text), from features of some examples."""
    squares = {b.name: _squared_norms(pilot, b.start, b.stop) for b in pilot.blocks}
    return {b.name: (2.0 if len(b.shape) == 1 else 6.0) * float(np.prod(squares[b.name])) for b in pilot.blocks}


def share(cost: Mapping[str, float], sizes: Mapping[str, int], total: int, least: int = 1) -> dict[str, int]:
    """Widths with a sum of at most `total` that make sum(cost / width) small; a parameter kept whole has no cost.

    sizes: entries of each parameter. least: no width is smaller, except that of a parameter with fewer entries.

    >>> share({"large": 16.0, "small": 1.0, "tiny": 1.0}, {"large": 999, "small": 999, "tiny": 10}, total=60)
    {'large': 40, 'small': 10, 'tiny': 10}
    """
    floor = {name: min(size, smooth_above(least - 1) if least > 1 else 1) for name, size in sizes.items()}
    if total < sum(floor.values()):
        raise ValueError(
            f"the budget must be at least {least} for each of the {len(sizes)} parameters that has so many, got {total}"
        )
    root = {name: np.sqrt(c) for name, c in cost.items()}
    keep = _kept(root, sizes, total, floor)
    free = total - sum(sizes[name] for name in keep)
    rest = [name for name in sizes if name not in keep]
    part = {name: (root[name] / sum(root[n] for n in rest) if any(root[n] for n in rest) else 0.0) for name in rest}
    wanted = {name: smooth_below(max(1, int(part[name] * free))) for name in rest}
    widths = {name: sizes[name] if name in keep else min(sizes[name], max(floor[name], wanted[name])) for name in sizes}
    while sum(widths.values()) > total:  # the least, for those with next to no gradient, may be more than their share
        largest = max((n for n in rest if widths[n] > floor[n]), key=lambda n: widths[n])
        widths[largest] = max(floor[largest], smooth_below(widths[largest] - 1))
    return _spend(widths, cost, sizes, total)


def _squared_norms(pilot: Features, start: int, stop: int) -> tuple[float, float]:
    """(sum |g|^2, sum |phi|^2) of the columns start to stop, over examples and steps."""
    g = pilot.g[:, start:stop].astype(np.float64)
    values = pilot.values[..., start:stop].astype(np.float64)
    return float((g * g).sum()), float((values * values).sum())


def _kept(root: Mapping[str, float], sizes: Mapping[str, int], total: int, floor: Mapping[str, int]) -> list[str]:
    """The parameters to keep whole: along root / size, the set that leaves the least (sum of roots)^2 / free."""
    order = sorted(sizes, key=lambda name: -root[name] / sizes[name])
    best, keep = np.inf, 0
    for k in range(len(order) + 1):
        free = total - sum(sizes[name] for name in order[:k])
        left = order[k:]
        if free < sum(floor[name] for name in left):
            break
        error = sum(root[name] for name in left) ** 2 / free if left else 0.0
        if error < best:
            best, keep = error, k
    return order[:keep]


def _spend(widths: dict[str, int], cost: Mapping[str, float], sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Spend what rounding left of `total`: raise the width that lowers the error most per number, while any fits."""
    while True:
        left = total - sum(widths.values())
        gains = {}
        for name, m in widths.items():
            wider = min(smooth_above(m), sizes[name])
            if m < wider <= m + left:
                gain = cost[name] / m - (cost[name] / wider if wider < sizes[name] else 0.0)
                gains[name] = (gain / (wider - m), wider)
        if not gains:
            return widths
        name = max(gains, key=lambda n: gains[n][0])
        widths[name] = gains[name][1]


@cache
def _smooth(most: int) -> list[int]:
    found = [1]
    for prime in (2, 3, 5):
        for x in list(found):
            while x * prime <= most:
                x *= prime
                found.append(x)
    return sorted(found)


def smooth_below(x: int) -> int:
    """The largest number up to x with no prime factor above 5.

    >>> smooth_below(2047), smooth_above(2048)
    (2025, 2160)
    """
    table = _smooth(1 << x.bit_length())
    return table[bisect_right(table, x) - 1]


def smooth_above(x: int) -> int:
    """The smallest such number above x."""
    table = _smooth(1 << x.bit_length())
    return table[bisect_right(table, x)]
