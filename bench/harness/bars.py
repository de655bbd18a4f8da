"""Bars: ratios of measured figures, and what each must not exceed, or must reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """top / bottom, to be compared with the bound in the given sense.

    >>> Bar("ours / plain", "ours", "plain", "<=", 0.8).judge({"ours": 3.0, "plain": 4.0}).met
    True
    """

    says: str
    top: str
    bottom: str
    sense: str
    bound: float

    def __post_init__(self) -> None:
        if self.sense not in ("<=", ">="):
            raise ValueError(f"sense must be '<=' or '>=', got {self.sense!r}")

    def judge(self, figures: Mapping[str, float]) -> Verdict:
        """The bar with the measured ratio; with None where a figure is missing."""
        if self.top not in figures or self.bottom not in figures:
            return Verdict(self.says, self.sense, self.bound, None)
        return Verdict(self.says, self.sense, self.bound, figures[self.top] / figures[self.bottom])


@dataclass(frozen=True)
class Verdict:
    """A bar with the ratio that was measured."""

    says: str
    sense: str
    bound: float
    value: float | None

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value <= self.bound if self.sense == "<=" else self.value >= self.bound

    @property
    def word(self) -> str:
        return {True: "met", False: "not met", None: "not measured"}[self.met]

    def row(self, judged: bool = True) -> list[str]:
        """Cells of a table; judged=False leaves out whether the bar is met, as in quick runs at tiny sizes."""
        measured = "-" if self.value is None else _figure(self.value, 3)
        return [self.says, measured, f"{self.sense} {_figure(self.bound, 2)}", self.word if judged else "not judged"]


def _figure(x: float, digits: int) -> str:
    return f"{x:.{digits}f}" if abs(x) >= 0.1 else f"{x:.4f}" if abs(x) >= 0.01 else f"{x:.1e}"


BARS_OF_RUNTIME = (
    Bar("looped GPT, hooks / plain forward+backward", "gpt hooks", "gpt plain", "<=", 0.76),
    Bar("looped GPT, recompute / plain forward+backward", "gpt recompute", "gpt plain", "<=", 1.00),
    Bar("Sudoku-size block, hooks / plain forward+backward", "sudoku hooks", "sudoku plain", "<=", 1.25),
    Bar("looped GPT, what the audit adds to a later batch / hooks", "gpt audit", "gpt hooks", "<=", 0.03),
    Bar("Sudoku-size block, what the audit adds to a later batch / hooks", "sudoku audit", "sudoku hooks", "<=", 0.03),
    Bar("Sudoku-size block, summed over steps / step-resolved", "sudoku summed", "sudoku hooks", "<=", 0.85),
)
BARS_OF_PEERS = (
    Bar("looped GPT, authors' release / ours, hooks", "gpt authors", "gpt hooks", ">=", 1.5),
    Bar("Sudoku-size block, authors' release / ours, hooks", "sudoku authors", "sudoku hooks", ">=", 4.0),
)
BARS_OF_MEMORY = (
    Bar(
        "peak over the model at tau=16, recompute / authors' release", "recompute tau=16", "authors tau=16", "<=", 0.20
    ),
    Bar("peak over the model, recompute, tau=32 / tau=8", "recompute tau=32", "recompute tau=8", "<=", 1.5),
    Bar("largest batch under the budget, recompute / dense phi", "largest recompute", "largest dense", ">=", 10.0),
)
BARS_OF_FIDELITY = (
    Bar("135.1M model: relative SDI error at m=2048", "sdi", "one", "<=", 0.0388),
    Bar("135.1M model: relative TracIn error at m=2048", "tracin", "one", "<=", 0.0220),
    Bar("135.1M model, the same bytes spread: relative SDI error", "sdi spread", "one", "<=", 0.0388),
    Bar("135.1M model, the same bytes spread: relative TracIn error", "tracin spread", "one", "<=", 0.0220),
    Bar("slope of log SDI error against log m, from below", "slope", "one", ">=", -0.55),
    Bar("slope of log SDI error against log m, from above", "slope", "one", "<=", -0.45),
    Bar("sketched conservation, relative error", "conservation", "one", "<=", 1e-6),
    Bar("SDI error with bytes spread / with equal m", "spread / equal", "one", "<=", 1.0),
)
BARS_OF_STREAM = (
    Bar("speed of the top-k pass / bare blocked product over the same file", "product", "top-k", ">=", 0.5),
    Bar("memory of the top-k pass beside the file, in GB / 1 GB", "memory", "one GB", "<=", 1.0),
)
BARS_OF_RETRIEVAL = (
    Bar("recall@10 of the index among 1,000,000 examples, the worse spectrum", "recall", "one", ">=", 0.95),
    Bar("time of a question by the index / by the full scan, the worse spectrum", "ratio", "one", "<=", 0.1),
)

BARS_OF_PLAN = tuple(
    Bar(f"planned / measured {what}, the {end} of the sizes", f"{what} {end}", "one", sense, bound)
    for what in ("CPU time", "memory", "CPU time of ranking")
    for end, sense, bound in (("highest", "<=", 1.25), ("lowest", ">=", 0.75))
)

BARS_OF_MILLION = tuple(
    Bar(f"a million examples, planned / taken {what}, from {end}", f"planned {what}", what, sense, bound)
    for what, low, high in (("disk", 1.0, 1.0), ("writing", 0.75, 1.25), ("ranking", 0.75, 1.25))
    for end, sense, bound in (("above", "<=", high), ("below", ">=", low))
)

BARS_OF_RANKS = (Bar("two ranks, a thread each / one process, two threads", "two ranks", "one process", "<=", 1.1),)


def judge(bars: Sequence[Bar], figures: Mapping[str, float]) -> list[Verdict]:
    return [bar.judge(figures) for bar in bars]
