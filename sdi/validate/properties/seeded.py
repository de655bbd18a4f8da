"""Another seed, another sketch, whatever the name; and everything that differs between sketches is in their tables.

What is missing from the tables shows where two sketches have the same ones and yet differ. At the size asked for, no
two draws agree in any table; at tiny sizes many do, so that hidden randomness shows at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.sketch_under_test import SEEDS as BLOCK
from sdi.validate.sketch_under_test import TINY, Shape, Subject, digest

SEEDS, FEWEST = 64, 16  # a mask of one entry of 48 has only so many values: repeats are no defect
NAMES = ("core.weight", "core.bias", "core.0.attn.q.bias", "read_in", "norm_out.weight")


@sketch_property(
    "seeded",
    says="every seed gives another sketch, and the tables hold all of its randomness",
    remedy="use the seed where randomness is drawn, and put every drawn array into tables(): identities, stores and "
    "reproducibility rest on them",
    needs=("repeatable", "layout"),
)
def seeded(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), f"{SEEDS} seeds for each of {len(NAMES)} names, and seeds beyond 32 bits")


def _tries(subject: Subject) -> Iterator[Try]:
    for shape, m in TINY:
        try:
            drawn = [subject.draw(k, shape, m) for k in range(SEEDS)]
        except ValueError:
            continue  # a size that the class refuses
        yield _hidden(drawn, _maps(subject, drawn)), _case(subject, shape, m, "core.weight")
    for shape in reversed(subject.shapes):
        for name in NAMES:
            drawn = [subject.draw(k, shape, name=name) for k in range(SEEDS)]
            case = _case(subject, shape, subject.m, name)
            if drawn[0].variance_factor() == 0:
                yield None, case  # it has no randomness: `protocol` has looked
                continue
            maps = _maps(subject, drawn)
            count = len(set(maps))
            yield (None if count >= FEWEST else f"{SEEDS} seeds give only {count} different sketches"), case
            yield _hidden(drawn, maps), case
        if drawn[0].variance_factor() > 0:
            far = subject.sketch.draw(shape, subject.m, seed=1 + (1 << 32), name="core.weight")
            near = subject.sketch.draw(shape, subject.m, seed=1, name="core.weight")
            same = len(set(_maps(subject, [far, near]))) == 1
            yield (None if not same else "seeds 1 and 1 + 2^32 give one sketch"), f"shape {shape}, m={subject.m}"


def _maps(subject: Subject, drawn: list[Any]) -> list[bytes]:
    """What each does to two arrays, as bytes to compare."""
    probe = subject.rng(11).standard_normal((2, *drawn[0].shape))
    return [np.asarray(sketch.apply(probe.copy())).tobytes() for sketch in drawn]


def _hidden(drawn: list[Any], maps: list[bytes]) -> str | None:
    tables = [repr(digest(sketch)) for sketch in drawn]
    hidden = len(set(zip(tables, maps, strict=True))) > len(set(tables))
    return "two sketches with the same tables apply differently" if hidden else None


def _case(subject: Subject, shape: Shape, m: int, name: str) -> str:
    return f"shape {shape}, m={m}, name {name!r}, {SEEDS} seeds from {subject.seed * BLOCK} on"
