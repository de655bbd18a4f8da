"""Another seed, another sketch; and everything that differs between sketches is in their tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.subject import SEEDS as BLOCK
from sdi.validate.subject import Subject, digest

SEEDS, FEWEST = 64, 16  # a mask of one entry of 48 has only so many values: repeats are no defect


@sketch_property(
    "seeded",
    says="every seed gives another sketch, and the tables hold all of its randomness",
    remedy="use the seed where randomness is drawn, and put every drawn array into tables(): identities, stores and "
    "reproducibility rest on them",
    needs=("repeatable", "layout"),
)
def seeded(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), f"{SEEDS} seeds, and seeds beyond 32 bits")


def _tries(subject: Subject) -> Iterator[Try]:
    for shape in reversed(subject.shapes):
        drawn = [subject.draw(k, shape) for k in range(SEEDS)]
        case = f"shape {shape}, m={subject.m}, {SEEDS} seeds from {subject.seed * BLOCK} on"
        if drawn[0].variance_factor() == 0:
            yield None, case  # it has no randomness: `protocol` has looked
            continue
        tables = [repr(digest(s)) for s in drawn]
        probe = subject.rng(11).standard_normal((2, *shape))
        maps = [np.asarray(s.apply(probe.copy())).tobytes() for s in drawn]
        count = len(set(maps))
        yield (None if count >= FEWEST else f"{SEEDS} seeds give only {count} different sketches"), case
        hidden = len(set(zip(tables, maps, strict=True))) > len(set(tables))
        yield (None if not hidden else "two sketches with the same tables apply differently"), case
        far = subject.sketch.draw(shape, subject.m, seed=1 + (1 << 32), name="core.weight")
        near = subject.sketch.draw(shape, subject.m, seed=1, name="core.weight")
        same = np.array_equal(far.apply(probe.copy()), near.apply(probe.copy()))
        yield (None if not same else "seeds 1 and 1 + 2^32 give one sketch"), f"shape {shape}, m={subject.m}"
