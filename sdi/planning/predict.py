"""predict: from what was measured to a Plan, by arithmetic alone.

Growth: batches follow one another, so time is in proportion to the examples, and so is ranking, which streams; both
were measured over a range of sizes (docs/results/scalability). Memory is that of one batch and one shard; only the
labels of examples, which every process holds, grow with n.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path

import numpy as np

from sdi.planning.cost import Cost
from sdi.planning.formula import Formula, Term, once
from sdi.planning.measured import Measured
from sdi.planning.plan_text import Plan, PlannedSize
from sdi.planning.store_bytes import Shards, all_id_bytes, side_bytes, split_shards
from sdi.store.shard_format import encoded
from sdi.units import bytes_text, seconds_text

COPIES = 5  # of a shard's features while it is written: of its batches, joined, converted, and twice as bytes
LABELS, LABELS_MORE = 1000, 220  # of an example's labels with one checkpoint and each further one: `sdi-bench plan`
BUSY = 1.3  # the clock over the processor's time, on a machine where others work


def predict(found: Measured, sizes: Sequence[int], queries: int, hosts: int, device: str, here: bool) -> Plan:
    """The plan for numbers of training examples. here: whether batches were timed on `device`; else time is unknown."""
    C, R = len(found.keys), found.settings.repeats
    seconds = _seconds(found, queries, hosts, "wall", hosts)
    cpu = _seconds(found, queries, 1, "cpu", hosts)
    memory = _memory(found, queries) if here else None
    ranking, ranking_cpu = (_ranking(found, queries, kind) if here else None for kind in ("wall", "cpu"))
    planned, exact = [], True
    for n in sizes:
        disk, guesses = disk_bytes(found, n, queries)
        exact = exact and not guesses
        planned.append(
            PlannedSize(
                n,
                seconds.value(n) if here else None,
                cpu.value(n) if here else None,
                None if memory is None else round(memory.value(n)),
                disk,
                2 * disk,
                None if ranking is None else ranking.value(n),
                None if ranking_cpu is None else ranking_cpu.value(n),
                _whole_bytes(found, n, queries),
            )
        )
    unknown = f"unknown on {device}, which is not here; no guess is made from {found.timed_on}"
    formulas = {
        "time": str(seconds) if here else unknown,
        "CPU time": str(cpu) if here else unknown,
        "memory": "unknown" if memory is None else str(memory),
        "disk": _disk_text(found, queries),
        "network": "disk, written once, and disk again for each time that all is ranked",
        "ranking": "unknown" if ranking is None else str(ranking),
    }
    words = _assumptions(found, sizes, queries, hosts, device, here)
    return Plan(
        tuple(planned), formulas, tuple(words), exact, device, found.timed_on, hosts, C, R, queries, found.numbers,
        found.to_dict(),
    )  # fmt: skip


def _shards(found: Measured, side: str, n: int) -> Shards:
    return split_shards(n, found.sides[side].batch, found.settings.shard)


def _busiest(found: Measured, side: str, n: int, hosts: int) -> int:
    """The examples that the busiest of the processes makes: shards are dealt out in turn, whole."""
    passes, shards = len(found.keys) * found.settings.repeats, _shards(found, side, n)
    return min(passes * n, shards.rows * ceil(passes * shards.number / hosts))


def _seconds(found: Measured, queries: int, shared_by: int, kind: str, hosts: int) -> Formula:
    """Time by the clock, of the busiest process (kind "wall"), or the CPU's, of all (kind "cpu", shared by one)."""
    C, R = len(found.keys), found.settings.repeats
    everywhere = 1 if kind == "wall" else hosts  # what each process does for itself

    def of(cost: Cost) -> float:
        return float(getattr(cost, kind))

    train, query = found.sides["train"], found.sides["query"]
    write = found.store.write
    first = sum(of(side.first.over(side.later)) for side in found.sides.values())
    begin = of(found.finding) + C * of(found.loading) + R * first + (of(found.pilot) if found.pilot else 0.0)
    made, seen = _busiest(found, "query", queries, shared_by), (C * R + 1) * queries
    terms = (
        Term(
            "to make and store a training example's features",
            _times(C * R, "n", shared_by),
            lambda n: _busiest(found, "train", n, shared_by),
            of(train.each) + of(write["train"]),
        ),
        Term(
            "to read one",
            _times(everywhere * C * R, "n"),
            lambda n: everywhere * C * R * n,
            of(train.read) / train.batch,
        ),
        Term("to make and store a query's", f"{made:,}", lambda n: made, of(query.each) + of(write["query"])),
        Term("to read one", f"{everywhere * seen:,}", lambda n: everywhere * seen, of(query.read) / query.batch),
        once("for checkpoints and the first batches, which are audited", everywhere * begin),
    )
    return Formula(terms, seconds_text)


def _memory(found: Measured, queries: int) -> Formula | None:
    if found.held_bytes is None or found.pass_bytes is None:
        return None
    held, passing = found.held_bytes, found.pass_bytes
    labels = label_bytes(len(found.keys) * found.settings.repeats)

    def waiting(n: int) -> int:
        """The features of the largest shard, of either side."""
        counts = {"train": n, "query": queries}
        return max(min(counts[name], _rows(found, name)) * side.value_bytes for name, side in found.sides.items())

    def working(n: int) -> int:
        return max(passing + waiting(n), COPIES * waiting(n))

    what = f"for a batch, and a shard that fills or is written ({COPIES} times its features)"
    return Formula(
        (
            once("held, with the model", held),
            Term(what, f"up to {bytes_text(working(10**18))}", working, 1),
            Term("for the ids and digests of an example", "n", lambda n: n, labels),
        ),
        bytes_text,
    )


def _rows(found: Measured, side: str) -> int:
    """The examples of a whole shard."""
    return _shards(found, side, 0).rows


def label_bytes(passes: int) -> int:
    """Bytes of an example's id, digest and places in memory. passes: checkpoints times stores.

    >>> label_bytes(1), label_bytes(3)
    (1000, 1440)
    """
    return LABELS + LABELS_MORE * (passes - 1)


def _ranking(found: Measured, queries: int, kind: str) -> Formula | None:
    if found.store.row is None or found.store.query is None or found.settings.repeats > 1:
        return None
    C = len(found.keys)
    begin, query, answer = (getattr(x, kind) for x in (found.store.begin, found.store.query, found.store.answer))
    return Formula(
        (
            Term(
                "to check and score a training example", _times(C, "n"), lambda n: C * n, getattr(found.store.row, kind)
            ),
            once("to begin, and for the queries", begin + queries * (answer + C * query)),
        ),
        seconds_text,
    )


def disk_bytes(found: Measured, n: int, queries: int) -> tuple[int, set[str]]:
    """Bytes of all shards, sidecars and manifests; and why they are a guess, if they are one."""
    total, guesses = 0, set()
    for name, count in (("train", n), ("query", queries)):
        side = found.sides[name]
        ids, guess = all_id_bytes(side.ids, count)
        guesses |= {guess} if guess else set()
        if len(set(side.features.tau.tolist())) > 1:
            guesses.add("examples are taken to have as many steps as the longest of the first batch")
        shards = _shards(found, name, count)
        for key in found.keys:
            total += side_bytes(_arrays(found, name), shards, f"{key}/{name}", ids, side.steps)
    return total * found.settings.repeats + found.manifest_bytes, guesses


def _arrays(found: Measured, side: str) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """What the arrays of a shard are: those that the timed features are stored as."""
    features = found.sides[side].features
    made = encoded(features, np.dtype(found.settings.dtype), Path("plan"))
    return {name: (x.dtype, x.shape[1:]) for name, x in made.items()}


def _disk_text(found: Measured, queries: int) -> str:
    passes = len(found.keys) * found.settings.repeats
    numbers = {
        name: sum(d.itemsize * int(np.prod(s)) for d, s in _arrays(found, name).values()) for name in found.sides
    }
    each = {name: f"({x:,} B and its labels)" for name, x in numbers.items()}
    return (
        f"{_times(passes, 'n')} × {each['train']} + {passes * queries:,} × {each['query']} + headers + "
        f"{found.manifest_bytes:,} B of manifests, counted file by file"
    )


def _whole_bytes(found: Measured, n: int, queries: int) -> int:
    steps = {name: side.steps if found.settings.keeps_steps[name] else 1 for name, side in found.sides.items()}
    scores = 8 * n * queries * steps["train"] * steps["query"] * (len(found.keys) + 1)
    return n * found.sides["train"].value_bytes + queries * found.sides["query"].value_bytes + scores


def _assumptions(found: Measured, sizes: Sequence[int], queries: int, hosts: int, device: str, here: bool) -> list[str]:
    train, largest = found.sides["train"], max(sizes)
    held = bytes_text(_whole_bytes(found, largest, queries))
    guesses = disk_bytes(found, largest, queries)[1]
    words = [
        f"time is in proportion to n: all examples cost what those of {train.batches} timed batches of {train.batch} "
        "cost on average; for another model, tau, m or batch, plan again",
        "every process reads all examples, for their ids and digests, and makes its share: reading is not divided",
        "Python, imports and model() of a script are not counted, nor is what it reads its data from",
        "labels of all examples are in the memory of every process; what grows with n there is nothing else",
        "ranking streams (sdi top, sdi.stream_top), files in memory; from a slower place, add network / its speed",
        f"sdi run and sdi score hold features and scores whole: {held} at n = {largest:,}",
    ]
    busy = train.later.wall / max(train.later.cpu, 1e-9)
    if here and found.timed_on == "cpu" and busy > BUSY:
        words.append(
            f"the clock ran {busy:.1f} times as long as the processor worked: others work here, and time counts that"
        )
    if hosts > 1:
        words.append("processes have machines of their own, like this one, and one fast file system that all share")
    words.append(
        "disk is exact: ids go on as they begin, and all examples have as many steps as the timed ones"
        if not guesses
        else "disk is a guess: " + "; ".join(sorted(guesses))
    )
    if not here:
        words.append(f"batches were timed on {found.timed_on}; run the plan on a machine that has {device}")
    if found.sides["query"].features.has_steps is False or found.settings.repeats > 1:
        words.append("ranking is unknown: only a store of one sketch that keeps the steps of queries can be streamed")
    return words


def _times(count: int, what: str, shared_by: int = 1) -> str:
    """
    >>> _times(2, "n", 8), _times(1, "n")
    ('2 n / 8', 'n')
    """
    return (f"{count:,} {what}" if count != 1 else what) + (f" / {shared_by:,}" if shared_by != 1 else "")
