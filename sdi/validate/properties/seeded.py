"""Another seed, another sketch, whatever the name; and everything that differs between sketches is in their tables.

Two seeds that give one sketch for one name may be a coincidence, where there are few sketches; if they do for eight
names, they are one seed. Seeds 0 to 999 and the multiples of 1000 have every difference up to a million, so that a seed
taken modulo anything up to there shows.

A parameter of some hundred entries mostly has so many sketches that no two seeds meet by chance, if seed and name make
a key of 32 bits or more. Where some of 2000 do, because there are few sketches or because the key is short, they are
asked again at other sizes: those of a short key meet there, too (by chance with probability 1e-7).

What is missing from the tables shows where two sketches have the same ones and yet differ. At the size asked for, no
two draws agree in any table; at tiny sizes many do, so that hidden randomness shows at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sdi.sketch.protocol import matrix_shape
from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.sketch_under_test import SEEDS as BLOCK
from sdi.validate.sketch_under_test import TINY, Shape, Sizes, Subject, digest

SEEDS, FEWEST = 64, 2  # a class may have few sketches: that seeds share one is no defect
NAMES = (
    "core.weight", "core.bias", "core.0.attn.q.bias", "read_in", "norm_out.weight", "model.layers.3.mlp.up_proj.weight",
    "transformer.h.11.ln_1.bias", "blocks.7.norm.weight",
)  # fmt: skip
WIDE = (((1,), 300, 600), ((1, 1), 1000, 600))  # with so many seeds, buckets meet that agree in their low byte only
STEPS = 1000
MANY: tuple[Shape, int] = ((313,), 8)  # even a mask of one entry of each eighth has 10^12 values there
AGAIN: Sizes = (((3001,), 8), ((2003,), 7), ((4001,), 9))  # even one that is a random start has 10^7 in all
PRIMES = (1_000_003, 15_485_863, 998_244_353, 10**9 + 7, 10**9 + 9, 2**32 - 5, 2**61 - 1)  # as hashes have them
FAR = (
    *(2**k for k in (*range(17, 34), 48, 53, 62, 63, 64)), *(10**k for k in range(7, 10)), 2**31 - 1, 2**32 - 1,
    *PRIMES,
)  # fmt: skip


@sketch_property(
    "seeded",
    says="every seed gives another sketch, and the tables hold all of its randomness",
    remedy="use the seed where randomness is drawn, and put every drawn array into tables(): identities, stores and "
    "reproducibility rest on them",
    needs=("repeatable", "layout"),
)
def seeded(subject: Subject) -> Evidence:
    seen = f"{SEEDS} seeds for each of {len(NAMES)} names, seeds that differ by any number up to {STEPS**2:,}, and by "
    return first_wrong(_tries(subject), f"{seen}more than 32 bits")


def _tries(subject: Subject) -> Iterator[Try]:
    for shape, m, seeds in (*((*size, SEEDS) for size in TINY), *WIDE):
        try:
            drawn = [subject.draw(k, shape, m) for k in range(seeds)]
        except ValueError:
            continue  # a size that the class refuses
        yield _hidden(drawn, _maps(subject, drawn)), _case(subject, shape, m, "core.weight", seeds)
    for shape in reversed(subject.shapes):
        for name in NAMES:
            drawn = [subject.draw(k, shape, name=name) for k in range(SEEDS)]
            case = _case(subject, shape, subject.m, name, SEEDS)
            if drawn[0].variance_factor() == 0:
                yield None, case  # it has no randomness, or needs none: `protocol` has looked
                continue
            maps = _maps(subject, drawn)
            count = len(set(maps))
            yield (None if count >= FEWEST else f"{SEEDS} seeds give only {count} different sketches"), case
            yield _hidden(drawn, maps), case
    yield from _of_numpy(subject)
    yield from _of_tables(subject)
    flat, (d_out, d_in) = prod(subject.shape), matrix_shape(subject.shape)
    known: dict[str, Shape] = {}
    for shape in dict.fromkeys(((flat,), (flat, 1), (1, flat), (d_out, d_in), (d_in, d_out))):
        for one in subject.drawn(((shape, subject.m),)):
            other = known.setdefault(str(getattr(one, "identity", shape)), shape)
            wrong = f"sketches of shapes {other} and {shape} have one identity"
            yield (None if other == shape else wrong), f"m={subject.m}"
    if subject.draw().variance_factor() > 0:
        yield from _periods(subject)


def _of_numpy(subject: Subject) -> Iterator[Try]:
    """A seed that NumPy's arithmetic gave is the same seed, or none."""
    for seed, kind in product((3, 200), (np.int64, np.int32, np.uint8)):
        try:
            other = _signature(subject, kind(seed), NAMES[:1])
        except (TypeError, ValueError):
            continue  # it may be refused
        same = other == _signature(subject, seed, NAMES[:1])
        wrong = f"seed {seed} and numpy's {kind.__name__}({seed}) give two sketches"
        yield (None if same else wrong), f"shape {subject.shape}, m={subject.m}"


def _of_tables(subject: Subject) -> Iterator[Try]:
    """A class that says how to make a sketch of its tables gets the same sketch back."""
    for shape in subject.shapes:
        sketch = subject.draw(shape=shape)
        if not hasattr(type(sketch), "of_tables"):
            continue
        again = type(sketch).of_tables(shape, sketch.size, dict(sketch.tables()))
        same = _maps(subject, [again]) == _maps(subject, [sketch])
        case = f"of_tables({shape}, {sketch.size}, sketch.tables())"
        yield (None if same else "of_tables makes another sketch of its tables"), case


def _periods(subject: Subject) -> Iterator[Try]:
    known: dict[bytes, int] = {}
    twins = []
    for seed in (*range(STEPS), *range(STEPS, STEPS**2, STEPS)):
        twin = known.setdefault(_signature(subject, seed, NAMES[:1]), seed)
        if twin != seed:
            twins.append((twin, seed))
    far = [(near, near + step) for step in FAR for near in (1, 2)] + [(step, step + 1) for step in FAR] + [(3, -3)]
    for one, other in far:
        try:
            same = _signature(subject, one, NAMES[:1]) == _signature(subject, other, NAMES[:1])
        except (ValueError, OverflowError):
            continue  # a seed that the class refuses
        twins += [(one, other)] if same else []
        table = _table_in_common(subject, one, other)
        wrong = f"table {table!r} changes with the name and is the same for seeds {one} and {other}"
        yield (None if table is None else wrong), f"shape {subject.shape}, m={subject.m}"
    case = f"shape {subject.shape}, m={subject.m}"
    for one, other in twins[:SEEDS]:
        same = _signature(subject, one, NAMES) == _signature(subject, other, NAMES)
        yield (None if not same else f"seeds {one} and {other} give one sketch, for each of {len(NAMES)} names"), case
    yield None, case
    for one in subject.drawn((MANY,)):
        if one.variance_factor() > 0:
            yield _key_is_short(subject), f"shape {MANY[0]}, m={MANY[1]}, name {NAMES[0]!r}"


def _table_in_common(subject: Subject, one: int, other: int) -> str | None:
    """A table that two seeds share for every name; by chance with probability 2^-32 at most."""
    names: tuple[str, ...] = NAMES[:2]
    left: set[str] | None = None
    for names in (NAMES[:2], NAMES[2:], tuple(f"core.{k}.weight" for k in range(24))):
        drawn = [[subject.sketch.draw(subject.shape, subject.m, seed=s, name=n) for s in (one, other)] for n in names]
        both = [[digest(sketch) for sketch in pair] for pair in drawn]
        random = {table for table in both[0][0] if len({a[table] for a, _ in both}) > 1}
        same = {table for table in random if all(a[table] == b.get(table) for a, b in both)}
        left = same if left is None else left & same
        if not left:
            return None
    return min(left or {""})


def _key_is_short(subject: Subject) -> str | None:
    seeds = (*range(STEPS), *range(STEPS, STEPS**2, STEPS))
    first: dict[bytes, int] = {}
    pairs = [(one, seed) for seed in seeds if (one := first.setdefault(_map_at(subject, MANY, seed), seed)) != seed]
    sizes = [(one.shape, m) for size, m in AGAIN for one in subject.drawn(((size, m),))]
    met = [p for p in pairs[:SEEDS] if all(len({_map_at(subject, size, seed) for seed in p}) == 1 for size in sizes)]
    if len(met) < 2:
        return None
    return f"seeds {met[0][0]} and {met[0][1]}, and {len(met) - 1} more pairs of {len(seeds)} seeds, give one sketch"


def _map_at(subject: Subject, size: tuple[Shape, int], seed: int) -> bytes:
    return _maps(subject, [subject.sketch.draw(*size, seed=seed, name=NAMES[0])])[0]


def _signature(subject: Subject, seed: int | np.integer[Any], names: tuple[str, ...]) -> bytes:
    drawn = [subject.sketch.draw(subject.shape, subject.m, seed=seed, name=name) for name in names]
    return b"".join(_maps(subject, drawn))


def _maps(subject: Subject, drawn: list[Any]) -> list[bytes]:
    """What each does to two arrays, as bytes to compare."""
    probe = subject.rng(11).standard_normal((2, *drawn[0].shape))
    return [np.asarray(sketch.apply(probe.copy())).tobytes() for sketch in drawn]


def _hidden(drawn: list[Any], maps: list[bytes]) -> str | None:
    tables = [repr(digest(sketch)) for sketch in drawn]
    if len(set(zip(tables, maps, strict=True))) > len(set(tables)):
        return "two sketches with the same tables apply differently"
    identities = [str(sketch.identity) for sketch in drawn if hasattr(sketch, "identity")]
    if identities and len(set(zip(identities, tables, strict=True))) > len(set(identities)):
        return "two sketches with different tables have one identity"
    return None


def _case(subject: Subject, shape: Shape, m: int, name: str, seeds: int) -> str:
    return f"shape {shape}, m={m}, name {name!r}, {seeds} seeds from {subject.seed * BLOCK} on"
