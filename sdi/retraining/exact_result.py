"""exact_result: scores of one whole training run as a Result; without error bars, unless a sketch has touched them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sdi.inputs.batches import in_order
from sdi.result.result import LOSS, Result, axes_of


def exact_result(
    train_ids: Sequence[str],
    query_ids: Sequence[str],
    mode: str,
    main: np.ndarray,
    outside: np.ndarray,
    tau: np.ndarray,
    loss: np.ndarray,
    info: Mapping[str, Any],
    stderr: tuple[np.ndarray, np.ndarray] | None = None,
) -> Result:
    """A Result with its rows in natural order of the ids.

    main: (train, query, steps of the mode). outside: (train, query). tau: of the queries, or in mode "train" of the
    training examples. loss: of each query after training. info: must hold the number of updates under "window".
    stderr: standard errors of `main`, and of the sums with `outside`; None: all are zero.
    """
    sides = {"train": tuple(train_ids), "query": tuple(query_ids)}
    places = {side: {i: k for k, i in enumerate(ids)} for side, ids in sides.items()}
    order = {side: [places[side][i] for i in in_order(ids)] for side, ids in sides.items()}
    pairs = np.ix_(order["train"], order["query"])
    steps = axes_of(mode)["by_checkpoint"][3:]
    labels: dict[str, tuple[Any, ...]] = {
        "checkpoint": (f"last {info['window']} updates",),
        **{side: tuple(ids[k] for k in order[side]) for side, ids in sides.items()},
        **{dim: tuple(range(1, size + 1)) for dim, size in zip(steps, main.shape[2:], strict=True)},
    }
    errors, whole_errors = (np.zeros_like(main), np.zeros_like(outside)) if stderr is None else stderr
    arrays = {
        "by_checkpoint": main[pairs][None],
        "outside": outside[pairs],
        "stderr": errors[pairs],
        "tracin_stderr": whole_errors[pairs],
        "tau": np.asarray(tau)[order["train" if mode == "train" else "query"]],
        LOSS: np.asarray(loss)[None, order["query"]],
    }
    return Result(mode, labels, arrays, dict(info))
