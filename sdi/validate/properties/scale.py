"""Norms are kept on average at every shape: a factor that depends on the shape would weigh parameters unequally.

x has random signs, drawn anew for every sketch, so that only the norms of the columns of S count, not their products.
What goes wrong with one of D entries moves their mean by 1 / D only: so parameters of few entries are drawn, too, and
columns are looked at one by one: none may be zero in every draw, and no two the same. For a good sketch, y = |S x|^2
has E y = |x|^2 and E y^2 <= (1 + f) |x|^4, so y > 0 with probability at least 1 / (1 + f) (Cauchy-Schwarz), for x = e_i
as for x = e_i - e_j.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, log, prod

import numpy as np
from jaxtyping import Float

from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.other_sizes import other_sizes, sample
from sdi.validate.sketch_under_test import TINY, Shape, Subject, square
from sdi.validate.statistics.mean_test import ALPHA, COARSEST, POWER, draws_to_see, mean_is
from sdi.validate.trial import JUDGE

Array = np.ndarray
MOST, NUMBERS = 256, 1 << 21  # columns that are looked at, and numbers in the arrays that show them
MORE = 2  # times the draws asked for are made at most, where the claimed variance asks for them


@sketch_property(
    "scale",
    says="the mean of |S x|^2 is |x|^2 at shapes of every form, and no entry of x is lost",
    remedy="a projection to m numbers with entries of size 1 needs the factor 1 / sqrt(m); the factor may depend on m, "
    "never on the number of rows, columns or entries. Every entry needs a column of its own, which is not always zero",
    needs=("repeatable", "seeded", "linear"),
)
def scale(subject: Subject, alpha: float = ALPHA) -> Evidence:
    n = max(subject.draws // 4, 60)
    shapes, others = shapes_of_every_form(subject), other_sizes(subject)
    small = [(shape, m) for shape, m in TINY if prod(shape) > m > 1 and any(True for _ in subject.drawn(((shape, m),)))]
    seen = f"{n} draws or more for each of {len(shapes)} shapes, from {shapes[0]} to {shapes[-1]}"
    seen += "".join(f", {few} of {shape} at m={m}" for shape, m, few in others)
    seen += "".join(f", {subject.draws} of {shape} at m={m}" for shape, m in small)
    each = alpha / (len(shapes) + len(small) + len(others)) / 2
    finest = 0.0
    undecided: list[tuple[float, str, str]] = []
    watched: list[tuple[Shape, int, float, int]] = []
    for shape, m, fewest in (*((*size, subject.draws) for size in small), *((shape, subject.m, n) for shape in shapes)):
        case = f"shape {shape}, m={m}, x = random signs"
        factor = float(subject.draw(JUDGE, shape, m).variance_factor())
        enough = draws_to_see(COARSEST, factor, each)
        draws = int(enough) if fewest < enough <= MORE * subject.draws else fewest
        test = mean_is(1.0, _norms(subject, shape, m, draws), factor, each, MORE)
        watched.append((shape, m, factor, draws))
        if m == subject.m:
            finest = max(finest, test.resolution)
        if test.undecided and m == subject.m:
            undecided.append((test.needed, test.undecided, case))
        if test.rejected:
            wrong = f"the mean of |S x|^2 / |x|^2 is {test.mean:.3g}, not 1"
            return Evidence(len(watched), seen, wrong, case, alpha)
    for s in (sample(subject, *size) for size in others):
        watched.append((s.shape, s.m, s.factor, len(s.mean)))
        test = mean_is(1.0, s.mean, s.factor, each)
        if test.rejected:
            wrong = f"the mean of |S x|^2 / |x|^2 is {test.mean:.3g}, not 1"
            return Evidence(len(watched), seen, wrong, f"{s.case}, x = random signs", alpha)
    count = 0
    for shape, m, factor, draws in watched:
        at = columns_of(shape, subject.rng(13), m)
        needed = draws_needed(factor, len(at), each)
        if needed <= draws:
            lost, x = _lost(subject, shape, m, at, needed)
            count += 1
            if lost is not None:
                return Evidence(len(watched), seen, lost, f"shape {shape}, m={m}, x = {x}", alpha)
    seen += f"; at {count} of all these, the columns one by one"
    power = f"a factor more than {finest:.2g} off is found with probability {POWER}" if finest else None
    if undecided:  # the draws that decide the worst of them decide all
        _, wrong, case = max(undecided)
        return Evidence(len(watched), seen, wrong, case, alpha, power, decided=False)
    return Evidence(len(watched), seen, alpha=alpha, power=power)


def draws_needed(factor: float, columns: int, alpha: float) -> int:
    """Draws after which a good sketch has shown all columns and their differences, but for a probability of alpha.

    >>> draws_needed(2.0, 10, 1e-6), draws_needed(0.0, 10, 1e-6)
    (44, 1)
    """
    pairs = columns * (columns + 1) / 2
    return 1 if factor == 0 else ceil(log(pairs / alpha) / log((1 + factor) / factor))


def columns_of(shape: Shape, rng: np.random.Generator, m: int = 1) -> list[int]:
    """All columns of S, or the entries on the border of x, those at powers of two, and some of the others."""
    places = np.arange(prod(shape)).reshape(shape[0], -1)
    most = min(MOST, max(8, NUMBERS // max(places.size, m)))
    if places.size <= most:
        return [int(k) for k in places.ravel()]
    border = np.unique(np.concatenate([places[0], places[-1], places[:, 0], places[:, -1]]))
    inside = places[1:-1, 1:-1].ravel()
    border = border if len(border) <= most else rng.choice(border, most, replace=False)
    some = rng.choice(inside, min(len(inside), most // 8), replace=False) if len(inside) else inside
    powers = [1 << k for k in range(places.size.bit_length()) if 1 << k < places.size]  # where an index may wrap around
    return sorted({0, places.size - 1, *border.tolist(), *some.tolist(), *powers})


def _norms(subject: Subject, shape: Shape, m: int, n: int) -> Float[Array, "n"]:
    signs = subject.rng(10).choice([-1.0, 1.0], size=(n, *shape)) / np.sqrt(prod(shape))
    drawn = (subject.draw(JUDGE + k, shape, m).apply(signs[k]) for k in range(n))
    return np.array([np.square(np.asarray(y, dtype=np.float64)).sum() for y in drawn])


def _lost(subject: Subject, shape: Shape, m: int, at: list[int], draws: int) -> tuple[str | None, str]:
    """A column that is zero, or equal to another or its negative, in every draw; and the x that shows it.

    A column that the first draws show to be none of these is not asked for again.
    """
    columns = {entry: np.empty(0) for entry in at}
    for k in range(draws):
        units = np.zeros((len(columns), prod(shape)))
        units[np.arange(len(columns)), list(columns)] = 1.0
        y = np.asarray(subject.draw(JUDGE + k, shape, m).apply(units.reshape(-1, *shape)), dtype=np.float64)
        columns = _doubtful({entry: np.append(columns[entry], row) for entry, row in zip(columns, y, strict=True)})
        if not columns:
            return None, ""
    known: dict[bytes, tuple[int, int]] = {}
    for entry, column in columns.items():
        place = tuple(int(i) for i in np.unravel_index(entry, shape))
        if not column.any():
            return f"S x = 0 in all of {draws} draws", f"1 at {place}, 0 elsewhere"
        twin, sign = known.setdefault((column + 0.0).tobytes(), (entry, 1))
        known.setdefault((-column + 0.0).tobytes(), (entry, -1))
        if twin != entry:
            other = tuple(int(i) for i in np.unravel_index(twin, shape))
            return f"S x = 0 in all of {draws} draws", f"{sign} at {other}, -1 at {place}, 0 elsewhere"
    return None, ""


def _doubtful(columns: dict[int, Array]) -> dict[int, Array]:
    """Those that are zero so far, or equal to another or its negative."""
    either = {entry: frozenset(((y + 0.0).tobytes(), (0.0 - y).tobytes())) for entry, y in columns.items()}
    count = Counter(either.values())
    return {entry: y for entry, y in columns.items() if count[either[entry]] > 1 or not y.any()}


def shapes_of_every_form(subject: Subject) -> list[Shape]:
    """Smallest first: a row, a column, a square, the shapes asked for, the transpose, more entries either way.

    Those with at most m entries only if the class sketches them, too, instead of having them kept; of those that were
    not asked for, only those that it does not refuse.
    """
    d_out, d_in, m = subject.shape[0], prod(subject.shape[1:]), subject.m
    more = max(m, d_out, d_in) + 1
    shapes = {(1, more), (more, 1), (more,), (d_in, d_out), (2 * d_out, d_in), (d_out, 3 * d_in)}
    shapes |= {square(m), *subject.shapes, (m,), (max(m // 2, 1),), (2, max(m // 4, 1))}
    keeps = getattr(subject.sketch, "keeps_small", True)
    kept = sorted((s for s in shapes if prod(s) > m or not keeps), key=lambda s: (prod(s), s))
    return [s for s in kept if s in subject.shapes or any(True for _ in subject.drawn(((s, m),)))]
