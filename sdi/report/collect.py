"""collect: the numbers of a report, from a result and its store, cut to what a page can hold.

A page holds CELLS scores at most. Where there are more training examples than fit, it holds those that act most on some
query, and `left_out` says so.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sdi.inputs.checkpoints import Checkpoint
from sdi.printable import printable, printable_id
from sdi.report.facts import audit_words, facts
from sdi.result.parts import parts
from sdi.result.result import Result
from sdi.scores import summaries
from sdi.store.store import Store

CELLS = 120_000  # scores of training examples on steps of queries
PART_CELLS = 60_000  # scores by parameter, and as many of step by step
QUERIES = 64
STRONGEST = 6  # training examples of a query that are split by parameter, or step by step
FEWEST = 12  # training examples, whatever the number of queries and steps
Array = np.ndarray


def collect(
    result: Result,
    store: Store | None,
    checkpoints: Sequence[Checkpoint],
    queries: Sequence[str] | None,
    groups: Mapping[str, Any] | Callable[[str], Any] | None,
) -> dict[str, Any]:
    """What a page shows, as JSON values. Arguments as in `write_report`."""
    if result.mode == "tracin":
        raise ValueError("a report needs loop steps; this result has mode='tracin', use 'query', 'train' or 'matrix'")
    steps = over_query_steps(result)
    left_out = []
    names = [str(q) for q in steps.labels["query"]]
    chosen = names[:QUERIES] if queries is None else [names[steps.position("query", q)] for q in queries]
    if queries is None and len(names) > QUERIES:
        left_out.append(f"{QUERIES} of {len(names)} queries are shown, the first; name others to see them")
    columns = [steps.position("query", q) for q in chosen]
    sdi = steps.sdi_values[:, columns]
    rows = strongest(sdi)
    n, tau = len(sdi), sdi.shape[2]
    most = max(FEWEST, CELLS // (len(columns) * tau))
    if n > most:
        left_out.append(f"{most} of {n:,} training examples are shown: those that act most on some query")
    rows = np.sort(rows[:most])
    ids = [str(steps.labels["train"][i]) for i in rows]
    grid = np.ix_(rows, np.array(columns))
    energy = energies(steps, columns, groups)
    summary = {name: values.values for name, values in steps.summary().items()}
    loss = steps.arrays["loss"][:, columns] if "loss" in steps.arrays else None
    found: dict[str, Any] = {
        "mode": result.mode,
        "steps": [int(t) for t in steps.labels["step"]],
        "train": {"ids": ids, "names": [printable_id(i) for i in ids], "all": n},
        "query": {"ids": chosen, "names": [printable_id(q) for q in chosen]},
        "sdi": packed(sdi[rows]),
        "stderr": packed(steps.arrays["stderr"][grid]),
        "tracin": packed(steps.tracin_values[grid]),
        "tracin_stderr": packed(steps.arrays["tracin_stderr"][grid]),
        "energy": {name: packed(values) for name, values in energy.items()},
        "summary": {k: numbers(summary[k][columns]) for k in ("late_mass", "centre_of_mass", "horizon")},
        "half": [int(x) for x in (steps.halves[rows] if result.mode == "train" else steps.halves[columns])],
        "loss": None if loss is None else [numbers(row) for row in loss],
        "facts": facts(result),
        "audit": audit_words(result),
        "notes": [printable(note) for note in result.notes],
        "parts": None,
        "matrix": None,
    }
    pairs = [[int(i) for i in top_of(sdi[:, c])] for c in range(len(columns))]
    where = {int(i): k for k, i in enumerate(rows)}
    if store is None:
        left_out.append("influence by parameter: it takes the run's store; report on its folder, not on a saved result")
    else:
        found["parts"], some = split_parts(store, checkpoints, steps, chosen, pairs, where)
        left_out += some
    if result.mode == "matrix":
        found["matrix"], some = split_steps(result, columns, pairs, where)
        left_out += some
    else:
        left_out.append(
            f"step by step (training step x query step): this run has mode={result.mode!r}, it takes 'matrix'"
        )
    if groups is None:
        left_out.append("energy by group: no groups were named")
    return {**found, "left_out": left_out}


def over_query_steps(result: Result) -> Result:
    """The result with one step axis: of mode "matrix", summed over the training example's steps.

    Standard errors are summed, too: steps share one sketch, so this is an upper bound.
    """
    if result.mode != "matrix":
        return result
    arrays = {**result.arrays, "by_checkpoint": result.arrays["by_checkpoint"].sum(axis=3)}
    arrays["stderr"] = result.arrays["stderr"].sum(axis=2)
    labels = {name: part for name, part in result.labels.items() if name != "train_step"}
    return replace(result, mode="query", labels=labels, arrays=arrays)


def strongest(sdi: Array) -> Array:
    """Training examples in the order of their largest share of some query's energy, largest first."""
    mass = np.abs(sdi).sum(axis=2)
    most = mass.max(axis=0, initial=0)
    return np.argsort(-(mass / np.where(most > 0, most, 1)).max(axis=1), kind="stable")


def top_of(sdi: Array) -> Array:
    """The STRONGEST rows of one query's scores (train, step), by the sum of |score|."""
    return np.argsort(-np.abs(sdi).sum(axis=1), kind="stable")[:STRONGEST]


def energies(steps: Result, columns: Sequence[int], groups: Any) -> dict[str, Array]:
    """Sums of |score| over training examples (query, step): of each group, or of those that help and that harm."""
    sdi = steps.sdi_values[:, columns]
    if groups is None:
        return {"helps": np.maximum(sdi, 0).sum(axis=0), "harms": np.maximum(-sdi, 0).sum(axis=0)}
    ids = [str(i) for i in steps.labels["train"]]
    missing = [i for i in ids if not callable(groups) and i not in groups]
    if missing:
        raise ValueError(f"groups must name every training example; {missing[0]!r} has none ({len(missing)} do not)")
    of = [groups(i) if callable(groups) else groups[i] for i in ids]
    names = list(dict.fromkeys(str(g) for g in of if g is not None))
    return {printable(g): summaries.energy(sdi, np.array([str(x) == g and x is not None for x in of])) for g in names}


def split_parts(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    steps: Result,
    queries: Sequence[str],
    pairs: Sequence[Sequence[int]],
    where: Mapping[int, int],
) -> tuple[dict[str, Any], list[str]]:
    """Influence by parameter and step of each query's strongest training examples, as far as a page can hold."""
    out: dict[str, Any] = {"parameters": [printable(b.name) for b in store.blocks], "of": {}}
    size = len(store.blocks) * len(steps.labels["step"]) * STRONGEST
    many = min(len(queries), max(1, PART_CELLS // size))
    for j, (query, rows) in enumerate(zip(queries[:many], pairs, strict=False)):
        rows = [i for i in rows if i in where]
        split = parts(store, checkpoints, query, [str(steps.labels["train"][i]) for i in rows]).sdi.values
        padded = np.zeros((len(rows), len(store.blocks), len(steps.labels["step"])))
        padded[:, :, : split.shape[2]] = split
        out["of"][j] = {where[i]: packed(padded[k]) for k, i in enumerate(rows)}
    return out, [] if many == len(queries) else [f"influence by parameter: of the first {many} queries only"]


def split_steps(
    result: Result, columns: Sequence[int], pairs: Sequence[Sequence[int]], where: Mapping[int, int]
) -> tuple[dict[str, Any], list[str]]:
    """Influence by the training example's step and the query's, of each query's strongest training examples."""
    matrix = result.sdi_values
    many = min(len(columns), max(1, PART_CELLS // (matrix.shape[2] * matrix.shape[3] * STRONGEST)))
    of = {
        j: {where[i]: packed(matrix[i, column]) for i in pairs[j] if i in where}
        for j, column in enumerate(columns[:many])
    }
    out = {"train_steps": [int(t) for t in result.labels["train_step"]], "of": of}
    return out, [] if many == len(columns) else [f"step by step: of the first {many} queries only"]


def packed(values: Array) -> str:
    """Numbers as base64 of little-endian float32, in C order."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def numbers(values: Array) -> list[float | None]:
    """Numbers as JSON has them: NaN is null."""
    return [float(x) if np.isfinite(x) else None for x in np.asarray(values, dtype=np.float64)]
