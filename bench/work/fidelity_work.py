"""Work: the settings of the fidelity command."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import Case

WIDTHS = (256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Work:
    """The model and batch, the widths that are compared, and the one whose bytes are spread."""

    case: Case
    widths: tuple[int, ...] = WIDTHS
    spread_at: int = 2048
    seeds: int = 10

    def __post_init__(self) -> None:
        wide = max(self.widths)
        if len(self.widths) < 2 or self.seeds < 1 or any(wide % m for m in self.widths):
            raise ValueError(
                f"widths must be two or more that divide the largest, for at least one seed, "
                f"got {list(self.widths)} and {self.seeds}"
            )
        if self.spread_at not in self.widths:
            raise ValueError(f"the m to be spread must be one of {list(self.widths)}, got {self.spread_at}")
