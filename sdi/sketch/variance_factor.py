"""The worst cases f of the default sketches, Var <S X, S Y> <= f |X|^2 |Y|^2: what bounds and error bars are made of.

    CountSketch   2/m
    TensorSketch  2c/m^2 + 6/m, c = 2 if m is even, 1 if it is odd

They stand here and nowhere else; `proofs_checks/` decides them.
"""

from __future__ import annotations

from sdi.sketch.protocol import check_m


def count_sketch_factor(m: int) -> float:
    """2/m: CountSketch's worst case.

    >>> count_sketch_factor(8)
    0.25
    """
    check_m(m)
    return 2 / m


def tensor_sketch_factor(m: int) -> float:
    """2c/m^2 + 6/m: TensorSketch's worst case; 4/m^2 + 6/m for even m.

    m: buckets. Returns the factor f of Var <TS X, TS Y> <= f |X|^2 |Y|^2.

    >>> tensor_sketch_factor(2), tensor_sketch_factor(1)
    (4.0, 8.0)
    """
    check_m(m)
    return coincidence_factor(m) + 6 / m


def coincidence_factor(m: int) -> float:
    """2c/m^2: the part of TensorSketch's worst case that two differences make which meet with both signs."""
    return 2 * coincidence(m) / m**2


def coincidence(m: int) -> int:
    """How many (A, B) modulo m have A + B = A - B = 0: two if m is even, one if it is odd."""
    return 2 - m % 2
