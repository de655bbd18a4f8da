"""Chart: what a command wants drawn, as data, so that a saved record can be drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Series:
    """Points of one name, with the half-widths of their intervals where known. A guide is a line without points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    guide: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines over x on logarithmic axes, or bars, one for each (label, value)."""

    title: str
    x: str
    y: str
    lines: Sequence[Series] = ()
    bars: Sequence[tuple[str, float]] = field(default_factory=tuple)
    names_at_ends: bool = False  # of the lines, instead of a legend

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Chart:
        lines = [Series(**line) for line in content["lines"]]
        return cls(**{**content, "lines": lines, "bars": [(name, value) for name, value in content["bars"]]})
