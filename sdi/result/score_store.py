"""score: from the features in a store to a Result, checkpoint by checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.errors import NonFiniteError
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.result import LOSS, Result, axes_of
from sdi.scores import products as scores
from sdi.scores.standard_error import block_norms, doubts, sizes, standard_error
from sdi.store.features import Features
from sdi.store.store import Store

Array = np.ndarray


def score(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    train_ids: Sequence[str],
    query_ids: Sequence[str],
    mode: str,
    info: Mapping[str, Any],
    stderr: str = "auto",
) -> Result:
    """Scores of these examples, weighted by eta and summed over checkpoints, with their standard errors."""
    bars = store.bars(stderr)
    by_checkpoint, outside, errors, total_errors, taus, losses = [], [], [], [], [], []
    reached = np.zeros(len(store.blocks), dtype=bool)
    for checkpoint in checkpoints:
        train = store.read(checkpoint.key, "train", train_ids)
        query = store.read(checkpoint.key, "query", query_ids)
        eta = etas(checkpoint, store)
        weighted = weigh(query, eta)
        match mode:
            case "query":
                main = scores.sdi(train, weighted)
                outside.append(scores.outside(train, weighted))
            case "train":
                main = scores.sdi_train(train, weighted)
                outside.append(scores.outside(weighted, train).T)
            case "matrix":
                main = scores.step_matrix(train, weighted)
                outside.append(scores.tracin(train, weighted) - main.sum(axis=(2, 3)))
            case _:
                main = scores.tracin(train, weighted)
                outside.append(np.zeros_like(main))
        by_checkpoint.append(main)
        errors.append(_stderr(store, train, query, eta, mode, bars))
        total_errors.append(_stderr(store, train, query, eta, "tracin", bars))
        taus.append(train.tau if mode == "train" else query.tau)
        losses.append(query.losses)
        reached |= (block_norms(train.g, train) > 0).any(axis=0) | (block_norms(query.g, query) > 0).any(axis=0)
    silent = [f"{b.name!r}" for b, moved in zip(store.blocks, reached, strict=True) if not moved]
    notes = [f"no example's gradient reaches {', '.join(silent)}: zeros stand for it"] if silent else []
    info = {**info, "notes": [*info.get("notes", []), *notes, *doubts(store.sketch, bars)]}
    if "settings" in info:
        info["settings"] = {**info["settings"], "stderr": bars}
    return make_result(
        checkpoints, train_ids, query_ids, mode, by_checkpoint, outside, errors, total_errors, taus, losses, info
    )


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
