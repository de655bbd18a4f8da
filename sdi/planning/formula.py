"""Formula: an amount as a sum of counts times what each takes. The text and the value come from the same terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Term(NamedTuple):
    """`times` things, each of which takes `each`. says: the count as text, in n, the number of training examples."""

    what: str
    says: str
    times: Callable[[int], float]
    each: float

    def value(self, n: int) -> float:
        return self.times(n) * self.each


class Formula(NamedTuple):
    """A sum of terms. unit: how an amount of it is written."""

    terms: tuple[Term, ...]
    unit: Callable[[float], str]

    def value(self, n: int) -> float:
        """The amount for n training examples."""
        return sum(term.value(n) for term in self.terms)

    def __str__(self) -> str:
        return " + ".join(self._text(t) for t in self.terms if t.each)

    def _text(self, t: Term) -> str:
        if t.says.startswith("up to"):  # an amount that is its own count
            return f"{t.says} {t.what}"
        return f"{self.unit(t.each)} {t.what}" if t.says == "1" else f"{t.says} × {self.unit(t.each)} {t.what}"


def once(what: str, each: float) -> Term:
    """A term that does not depend on n.

    >>> print(Formula((once("to begin", 3.0), Term("a row", "2 n", lambda n: 2 * n, 0.5)), "{:g} s".format))
    3 s to begin + 2 n × 0.5 s a row
    """
    return Term(what, "1", lambda n: 1, each)
