"""score: from the features in a store to a Result, checkpoint by checkpoint, training shard by training shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from sdi.errors import NonFiniteError
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.result import LOSS, Result, axes_of
from sdi.scores import products as scores
from sdi.scores.standard_error import block_norms, doubts, sizes, standard_error
from sdi.store.features import Features
from sdi.store.share import Share
from sdi.store.store import Store, find_row

Array = np.ndarray


class Scored(NamedTuple):
    """Scores of some training examples at one checkpoint."""

    at: Int[Array, "b"]  # their places among all
    main: Float[Array, "b q ..."]
    outside: Float[Array, "b q"]
    stderr: Float[Array, "b q ..."]
    total_stderr: Float[Array, "b q"]
    tau: Int[Array, "b"]
    reached: Bool[Array, "P"]  # the parameters that their gradients reach


def score(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    train_ids: Sequence[str],
    query_ids: Sequence[str],
    mode: str,
    info: Mapping[str, Any],
    stderr: str = "auto",
    share: Share | None = None,
) -> Result:
    """Scores of these examples, weighted by eta and summed over checkpoints, with their standard errors.

    share: which of several processes this is: each scores the training shards that fall to it, and gets the whole
    result. Every shard is scored by itself, also by one process, so the numbers do not depend on who scores which.
    """
    bars, share = store.bars(stderr), share or Share()
    store.look([(c.key, side) for c in checkpoints for side in ("train", "query")], share)
    parts: list[Scored] = []
    queries: list[Features] = []
    for checkpoint in checkpoints:
        query, eta = store.read(checkpoint.key, "query", query_ids), etas(checkpoint, store)
        weighted = weigh(query, eta)
        mine = [
            _scored(store, store.read(checkpoint.key, "train", ids), at, query, weighted, eta, mode, bars)
            for k, (at, ids) in enumerate(_by_shard(store, checkpoint, train_ids))
            if share.mine(k)
        ]
        parts.append(_joined([part for some in share.gather(mine) for part in some]))
        queries.append(query)
    reached = np.any([part.reached for part in parts] + [_reached(query) for query in queries], axis=0)
    silent = [f"{b.name!r}" for b, moved in zip(store.blocks, reached, strict=True) if not moved]
    notes = [f"no example's gradient reaches {', '.join(silent)}: zeros stand for it"] if silent else []
    info = {**info, "notes": [*info.get("notes", []), *notes, *doubts(store.sketch, bars)]}
    if "settings" in info:
        info["settings"] = {**info["settings"], "stderr": bars}
    main, outside, errors, total_errors = (
        [getattr(part, name) for part in parts] for name in ("main", "outside", "stderr", "total_stderr")
    )
    taus = [part.tau if mode == "train" else query.tau for part, query in zip(parts, queries, strict=True)]
    losses = [query.losses for query in queries]
    return make_result(checkpoints, train_ids, query_ids, mode, main, outside, errors, total_errors, taus, losses, info)


def _by_shard(store: Store, checkpoint: Checkpoint, ids: Sequence[str]) -> list[tuple[Int[Array, "b"], list[str]]]:
    """Examples shard by shard, those of each in the order of `ids`: their places there, and their ids."""
    rows = store.rows(checkpoint.key, "train")
    shards: dict[Path, list[int]] = {}
    for at, i in enumerate(ids):
        shards.setdefault(find_row(rows, i, "train").shard, []).append(at)
    places = [shards[shard] for shard in sorted(shards)] or [[]]
    return [(np.array(at, dtype=np.int64), [ids[k] for k in at]) for at in places]


def _scored(
    store: Store,
    train: Features,
    at: Int[Array, "b"],
    query: Features,
    weighted: Features,
    eta: Float[Array, "P"],
    mode: str,
    bars: str,
) -> Scored:
    match mode:
        case "query":
            main = scores.sdi(train, weighted)
            outside = scores.outside(train, weighted)
        case "train":
            main = scores.sdi_train(train, weighted)
            outside = scores.outside(weighted, train).T
        case "matrix":
            main = scores.step_matrix(train, weighted)
            outside = scores.tracin(train, weighted) - main.sum(axis=(2, 3))
        case _:
            main = scores.tracin(train, weighted)
            outside = np.zeros_like(main)
    error, total_error = (_stderr(store, train, query, eta, one, bars) for one in (mode, "tracin"))
    return Scored(at, main, outside, error, total_error, train.tau, _reached(train))


def _joined(parts: Sequence[Scored]) -> Scored:
    """Scores of all training examples, in order, from those of some; fewer steps are padded with zeros."""
    order = np.argsort(np.concatenate([part.at for part in parts]))
    arrays = {}
    for name in ("main", "outside", "stderr", "total_stderr", "tau"):
        found = [getattr(part, name) for part in parts]
        shape = np.max([a.shape[1:] for a in found], axis=0).astype(int)
        padded = [np.pad(a, [(0, 0), *((0, n - k) for n, k in zip(shape, a.shape[1:], strict=True))]) for a in found]
        arrays[name] = np.concatenate(padded)[order]
    return Scored(at=order, reached=np.any([part.reached for part in parts], axis=0), **arrays)


def _reached(features: Features) -> Bool[Array, "P"]:
    return np.asarray((block_norms(features.g, features) > 0).any(axis=0))


def make_result(
    checkpoints: Sequence[Checkpoint],
    train_ids: Sequence[str],
    query_ids: Sequence[str],
    mode: str,
    main: Sequence[Array],
    outside: Sequence[Array],
    stderr: Sequence[Array],
    total_stderr: Sequence[Array],
    taus: Sequence[Array],
    losses: Sequence[Array | None],
    info: Mapping[str, Any],
) -> Result:
    """A Result from one array per checkpoint of each kind; where checkpoints differ in steps, zeros fill up.

    losses: of the queries; None for a checkpoint where they are not known.
    """
    by_checkpoint = stack(main)
    steps = axes_of(mode)["by_checkpoint"][3:]
    labels: dict[str, tuple[Any, ...]] = {
        "checkpoint": tuple(c.key for c in checkpoints),
        "train": tuple(train_ids),
        "query": tuple(query_ids),
        **{dim: tuple(range(1, size + 1)) for dim, size in zip(steps, by_checkpoint.shape[3:], strict=True)},
    }
    arrays: dict[str, Array] = {
        "by_checkpoint": by_checkpoint,
        "outside": np.sum(outside, axis=0),
        "stderr": stack(stderr).sum(axis=0),
        "tracin_stderr": np.sum(total_stderr, axis=0),
        "tau": np.max(taus, axis=0),
    }
    known = [part for part in losses if part is not None]
    if len(known) == len(checkpoints):
        arrays[LOSS] = np.stack(known)
    return Result(mode, labels, arrays, dict(info))


def stack(arrays: Sequence[Array]) -> Array:
    """Arrays stacked along a new first axis, after padding the last axes with zeros to a common length."""
    shape = np.max([a.shape for a in arrays], axis=0)
    return np.stack([np.pad(a, [(0, int(s - k)) for s, k in zip(shape, a.shape, strict=True)]) for a in arrays])


def etas(checkpoint: Checkpoint, store: Store) -> Float[Array, "P"]:
    """The eta of each of the store's parameters at a checkpoint."""
    return np.array([checkpoint.eta_of(b.name) for b in store.blocks])


def weigh(features: Features, eta: Float[Array, "P"]) -> Features:
    """Features with each parameter's columns multiplied by its eta."""
    with np.errstate(over="ignore", invalid="ignore"):  # the error below says more than a warning
        columns = np.repeat(eta, [b.stop - b.start for b in features.blocks]).astype(features.values.dtype)
        values = features.values * columns
        outside = None if features.outside is None else features.outside * columns
    try:
        return replace(features, values=values, outside=outside)
    except NonFiniteError:  # not the gradients' fault: they were finite
        raise NonFiniteError(
            f"eta {eta.max():g} is too large: times a gradient, it does not fit into {values.dtype}; give a smaller "
            "eta, or use dtype='float64'"
        ) from None


def _stderr(store: Store, train: Features, query: Features, eta: Array, mode: str, bars: str) -> Array:
    a = sizes(train, store.dtype, whole=mode in ("query", "tracin"))
    b = sizes(query, store.dtype, whole=mode in ("train", "tracin"))
    error = standard_error(store.sketch, a, b, eta, bars)
    # (n, tau, q) or (n, tau, q, tau'): training axes first; the query's axis stands second in a result.
    return error.swapaxes(1, 2) if mode in ("train", "matrix") else error
