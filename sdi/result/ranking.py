"""Top: the training examples that most influence a query, with error bars and a mark where the order is noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sdi.arguments import at_least_one, number, one_of, whole
from sdi.printable import html_table, printable, printable_id
from sdi.scores.standard_error import Z95

ORDERS = ("signed", "absolute", "late")
LATE = 0.5  # by "late": only examples with at least this share of their influence in the later half of the loop
NAME = 60  # characters of an id that a printed ranking shows; the rows hold it whole
Array = np.ndarray


class TopRow(NamedTuple):
    """A row of a ranking.

    >>> TopRow(rank=1, train="t-7", score=0.25, stderr=0.01, late=0.5, tied=False).train
    't-7'
    """

    rank: int  # from 1
    train: str  # the id of a training example, or the name of a group
    score: float  # the influence, over the steps that were asked for
    stderr: float  # its standard error; NaN where it has none, as a sum of sizes
    late: float  # share of |score| in the later half of the loop; NaN without steps
    tied: bool  # the difference to the next row, shown or not, is within noise: their order is not certain


@dataclass(frozen=True)
class Top:
    """The training examples that most influence a query, best first. Prints as a table; iterates over its rows.

    >>> row = TopRow(rank=1, train="t-7", score=0.25, stderr=0.01, late=0.5, tied=False)
    >>> print(Top("q-1", "steps 1 to 4", "signed", (row,)))
    query q-1, steps 1 to 4, by signed
    rank  train        score  +- 95%
       1  t-7          +0.25  0.02
    """

    query: str  # its id
    steps: str  # which steps were summed, in words
    by: str  # how it is sorted: "signed", "absolute" or "late"
    rows: tuple[TopRow, ...]  # best first
    what: str = "train"  # what is ranked: training examples, or groups of them

    def __iter__(self) -> Iterator[TopRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        names = [
            name if len(name) <= NAME else name[: NAME - 1] + "…" for name in (printable_id(r.train) for r in self.rows)
        ]
        width = max([5, *map(len, names)])
        head = f"{'rank':>4}  {self.what:<{width}}  {'score':>11}  +- 95%"
        lines = [f"query {printable(self.query)}, {self.steps}, by {self.by}", head]
        for r, name in zip(self.rows, names, strict=True):
            tie = "  ~ this and the next might change places" if r.tied else ""
            lines.append(f"{r.rank:>4}  {name:<{width}}  {r.score:>+11.4g}  {error_text(r.stderr)}{tie}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = ("rank", self.what, "score", "± 95%", "", "late")
        cells = (
            (r.rank, r.train, f"{r.score:+.4g}", error_text(r.stderr), "~" if r.tied else "",
             "" if r.late != r.late else f"{r.late:.0%}")
            for r in self.rows
        )  # fmt: skip
        tied = "; ~: this row and the next might change places" if any(r.tied for r in self.rows) else ""
        return html_table(f"query {self.query}, {self.steps}, by {self.by}{tied}", head, cells)


def error_text(stderr: float) -> str:
    """Half of a 95% interval, two digits; nothing for what has no standard error.

    >>> error_text(0.01), error_text(float("nan"))
    ('0.02', '')
    """
    return "" if stderr != stderr else f"{Z95 * stderr:.2g}"


def check_order(k: int, by: str, late: float = LATE) -> int:
    """Check the arguments of a ranking, and return k as a Python int."""
    k = whole("k", k)
    at_least_one("k", k)
    one_of("by", by, ORDERS)
    number("late", late, "a number from 0 to 1", lambda share: 0 <= share <= 1)
    return k


def order_keys(scores: Float[Array, "..."], shares: Float[Array, "..."] | None, by: str, late: float) -> Array:
    """The numbers to sort by, largest first; -inf marks examples to leave out.

    shares: each example's share of influence in the later half of the loop. late: the least share, for by="late".
    """
    if by == "signed":
        return np.asarray(scores)
    if by == "absolute" or shares is None:
        return np.abs(scores)
    return np.where(np.nan_to_num(shares, nan=-1.0) >= late, np.abs(scores), -np.inf)


def top_rows(
    ids: list[str], order: Sequence[int], scores: Array, keys: Array, errors: Array, late: Array, k: int
) -> tuple[TopRow, ...]:
    """The first k rows of a ranking, each marked as tied if the next one's key differs by no more than noise.

    ids, scores, keys, errors, late: of all examples. order: their indices, sorted by key, best first.
    Keys are compared, not scores: by "absolute", two scores of opposite signs can be tied.
    """
    rows = []
    for place, i in enumerate(order[:k]):
        tied = False
        if place + 1 < len(order):
            n = order[place + 1]
            noise = Z95 * np.hypot(errors[i], errors[n])
            tied = bool(noise > 0 and abs(keys[i] - keys[n]) <= noise)
        rows.append(TopRow(place + 1, ids[i], float(scores[i]), float(errors[i]), float(late[i]), tied))
    return tuple(rows)


def step_words(first: int, last: int, tau: int) -> str:
    return f"step {first} of {tau}" if first == last else f"steps {first} to {last} of {tau}"


def step_range(steps: slice | int | None, tau: int) -> tuple[int, int]:
    """First and last step, from 1, both included.

    >>> step_range(slice(17, 32), 40), step_range(None, 40), step_range(3, 40), step_range(slice(17, None), 40)
    ((17, 32), (1, 40), (3, 3), (17, 40))
    """
    if steps is None:
        return 1, tau
    wanted = steps if isinstance(steps, slice) else slice(steps, steps)
    try:
        first = 1 if wanted.start is None else index(wanted.start)
        last = tau if wanted.stop is None else index(wanted.stop)
    except TypeError:
        raise TypeError(f"steps must be a step or a slice of steps, got {steps!r}") from None
    if wanted.step not in (None, 1) or not 1 <= first <= last <= tau:
        raise ValueError(f"steps must lie within 1 to {tau}, first at most last, got {steps}")
    return first, last
