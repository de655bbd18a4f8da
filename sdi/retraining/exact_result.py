"""exact_result: scores that no sketch has touched, of one whole training run, as a Result without error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sdi.result.result import STEP_AXES, Result


def exact_result(
    train_ids: Sequence[str],
    query_ids: Sequence[str],
    mode: str,
    main: np.ndarray,
    outside: np.ndarray,
    tau: np.ndarray,
    info: Mapping[str, Any],
) -> Result:
    """A Result with standard errors of zero. main: (train, query, steps of the mode). outside: (train, query).

    info: must hold the number of updates that the scores are of, under "window".
    """
    dims = ("train", "query", *STEP_AXES[mode])
    labels: dict[str, tuple[Any, ...]] = {
        "checkpoint": (f"last {info['window']} updates",),
        "train": tuple(train_ids),
        "query": tuple(query_ids),
        **{dim: tuple(range(1, size + 1)) for dim, size in zip(dims[2:], main.shape[2:], strict=True)},
    }
    arrays = {
        "by_checkpoint": main[None],
        "outside": outside,
        "stderr": np.zeros_like(main),
        "tracin_stderr": np.zeros_like(outside),
        "tau": np.asarray(tau),
    }
    return Result(mode=mode, labels=labels, arrays=arrays, info=dict(info))
