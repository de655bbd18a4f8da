"""Norms are kept on average at every shape: a factor that depends on the shape would weigh parameters unequally.

x has random signs, drawn anew for every sketch, so that only the norms of the columns of S count, not their products.
An entry that is always lost moves their mean by 1 / D only, so columns are also looked at one by one: none may be zero
in every draw, and no two the same. For a good sketch, y = |S x|^2 has E y = |x|^2 and E y^2 <= (1 + f) |x|^4, so y > 0
with probability at least 1 / (1 + f) (Cauchy-Schwarz), for x = e_i as for x = e_i - e_j.
"""

from __future__ import annotations

from math import ceil, log, prod

import numpy as np
from jaxtyping import Float

from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.sketch_under_test import Shape, Subject, square
from sdi.validate.statistics.mean_test import ALPHA, COARSEST, POWER, draws_to_see, mean_is
from sdi.validate.trial import JUDGE

Array = np.ndarray
LARGER: tuple[Shape, int] = ((13, 85), 128)  # more than 1000 entries, more than 64 columns, an odd number of them
LARGER_DRAWS = 200  # at most: dense projections are slow there
MOST = 256  # columns that are looked at


@sketch_property(
    "scale",
    says="the mean of |S x|^2 is |x|^2 at shapes of every form, and no entry of x is lost",
    remedy="a projection to m numbers with entries of size 1 needs the factor 1 / sqrt(m); the factor may depend on m, "
    "never on the number of rows, columns or entries. Every entry needs a column of its own, which is not always zero",
    needs=("repeatable", "seeded", "linear"),
)
def scale(subject: Subject, alpha: float = ALPHA) -> Evidence:
    n = max(subject.draws // 4, 60)
    shapes = shapes_of_every_form(subject)
    sizes = [(shape, subject.m, n) for shape in shapes]
    seen = f"{n} draws or more for each of {len(shapes)} shapes, from {shapes[0]} to {shapes[-1]}"
    if _draws(subject, *LARGER):
        sizes.append((*LARGER, min(n, LARGER_DRAWS)))
        seen += f", and {sizes[-1][2]} or more for {LARGER[0]} at m={LARGER[1]}"
    each = alpha / len(sizes) / 2
    finest, watched = 0.0, 0
    undecided: list[tuple[float, str, str]] = []
    for k, (shape, m, few) in enumerate(sizes, start=1):
        factor = float(subject.draw(JUDGE, shape, m).variance_factor())
        enough = draws_to_see(COARSEST, factor, each)
        draws = int(enough) if few < enough <= subject.draws else few
        test = mean_is(1.0, _norms(subject, shape, m, draws), factor, each)
        finest = max(finest, test.resolution)
        if test.undecided:
            undecided.append((test.needed, test.undecided, f"shape {shape}, m={m}, x = y = random signs"))
        wrong, x = f"the mean of |S x|^2 / |x|^2 is {test.mean:.3g}, not 1" if test.rejected else None, "random signs"
        if wrong is None:
            at = columns_of(shape, subject.rng(13))
            needed = draws_needed(factor, len(at), each)
            if needed <= draws:
                wrong, x = _lost(subject, shape, m, at, needed)
                watched += 1
        if wrong is not None:
            return Evidence(k, seen, wrong, f"shape {shape}, m={m}, x = {x}", alpha)
    seen += f"; at {watched} of all these, the columns one by one"
    power = f"a factor more than {finest:.2g} off is found with probability {POWER}" if finest else None
    if undecided:  # the draws that decide the worst of them decide all
        _, wrong, x = max(undecided)
        return Evidence(len(sizes), seen, wrong, x, alpha, power, decided=False)
    return Evidence(len(sizes), seen, alpha=alpha, power=power)


def draws_needed(factor: float, columns: int, alpha: float) -> int:
    """Draws after which a good sketch has shown all columns and their differences, but for a probability of alpha.

    >>> draws_needed(2.0, 10, 1e-6), draws_needed(0.0, 10, 1e-6)
    (44, 1)
    """
    pairs = columns * (columns + 1) / 2
    return 1 if factor == 0 else ceil(log(pairs / alpha) / log((1 + factor) / factor))


def columns_of(shape: Shape, rng: np.random.Generator) -> list[int]:
    """All columns of S, or the entries on the border of x and some of the others."""
    places = np.arange(prod(shape)).reshape(shape[0], -1)
    if places.size <= MOST:
        return [int(k) for k in places.ravel()]
    border = np.unique(np.concatenate([places[0], places[-1], places[:, 0], places[:, -1]]))
    inside = np.setdiff1d(places, border)
    border = border if len(border) <= MOST else rng.choice(border, MOST, replace=False)
    some = rng.choice(inside, min(len(inside), MOST // 8), replace=False) if len(inside) else inside
    return sorted({0, places.size - 1, *border.tolist(), *some.tolist()})


def _draws(subject: Subject, shape: Shape, m: int) -> bool:
    """Whether the class draws sketches of a size that was not asked for."""
    try:
        subject.draw(JUDGE, shape, m)
    except ValueError:
        return False
    return True


def _norms(subject: Subject, shape: Shape, m: int, n: int) -> Float[Array, "n"]:
    signs = subject.rng(10).choice([-1.0, 1.0], size=(n, *shape)) / np.sqrt(prod(shape))
    drawn = (subject.draw(JUDGE + k, shape, m).apply(signs[k]) for k in range(n))
    return np.array([np.square(np.asarray(y, dtype=np.float64)).sum() for y in drawn])


def _lost(subject: Subject, shape: Shape, m: int, at: list[int], draws: int) -> tuple[str | None, str]:
    """A column that is zero, or equal to another, in every draw; and the x that shows it."""
    units = np.zeros((len(at), prod(shape)))
    units[np.arange(len(at)), at] = 1.0
    units = units.reshape(len(at), *shape)
    columns = [np.asarray(subject.draw(JUDGE + k, shape, m).apply(units), dtype=np.float64) for k in range(draws)]
    known: dict[bytes, int] = {}
    for k, entry in enumerate(at):
        column = np.concatenate([y[k] for y in columns])
        place = tuple(int(i) for i in np.unravel_index(entry, shape))
        if not column.any():
            return f"S x = 0 in all of {draws} draws", f"1 at {place}, 0 elsewhere"
        twin = known.setdefault((column + 0.0).tobytes(), entry)
        if twin != entry:
            other = tuple(int(i) for i in np.unravel_index(twin, shape))
            return f"S x = 0 in all of {draws} draws", f"1 at {other}, -1 at {place}, 0 elsewhere"
    return None, ""


def shapes_of_every_form(subject: Subject) -> list[Shape]:
    """Smallest first: a row, a column, a square, the shapes asked for, the transpose, more entries either way."""
    d_out, d_in = subject.shape[0], prod(subject.shape[1:])
    more = max(subject.m, d_out, d_in) + 1
    shapes = {(1, more), (more, 1), (more,), (d_in, d_out), (2 * d_out, d_in), (d_out, 3 * d_in)}
    shapes |= {square(subject.m), *subject.shapes}
    return sorted((s for s in shapes if prod(s) > subject.m), key=lambda s: (prod(s), s))
