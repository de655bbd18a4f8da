"""proxy: the read-out replaced by the nearest of a few states and a table from state to parity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from .states import nearest

Array = np.ndarray
QUANTILE = 0.95


@dataclass(frozen=True)
class Proxy:
    """Centres, the parity that each stands for, and the distance within which a state counts as known."""

    centres: Float[Array, "k d"]
    parity: Int[Array, "k"]  # -1: no calibration example ended there
    purity: float  # share of calibration examples that agree with the table
    threshold: float

    @classmethod
    def calibrate(cls, centres: Float[Array, "k d"], h: Float[Array, "n d"], parity: Int[Array, "n"]) -> Proxy:
        """The table by majority. A tie is a state that does not tell, as is one where nothing ended."""
        state, far = nearest(h, centres)
        ones = np.bincount(state, parity, len(centres))
        total = np.bincount(state, minlength=len(centres))
        table = np.where(2 * ones == total, -1, (2 * ones > total).astype(int))
        return cls(centres, table, float((table[state] == parity).mean()), float(np.quantile(far, QUANTILE)))

    def __call__(self, h: Float[Array, "n d"]) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
        """The parity that the nearest state stands for, and how far it is."""
        state, far = nearest(h, self.centres)
        return self.parity[state], far

    def score(self, h: Float[Array, "n d"], parity: Int[Array, "n"]) -> dict[str, float | int | None]:
        """Accuracy on all, and on those within the threshold with their share."""
        said, far = self(h)
        right, known = said == parity, far <= self.threshold
        return {
            "count": len(h),
            "accuracy": float(right.mean()) if len(h) else None,
            "selective": float(right[known].mean()) if known.any() else None,
            "coverage": float(known.mean()) if len(h) else None,
        }
