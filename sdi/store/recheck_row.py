"""Compare one stored row with the same row computed now, since fingerprints do not see all code that it depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sdi.errors import StoreError
from sdi.inputs.checkpoints import Checkpoint
from sdi.store.features import Features
from sdi.store.store import Store

# By the types that gradients came in, as in the audit of `fast`: rounding is below, other code is off by percents.
TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "bfloat16": 0.05, "float16": 0.01}


def alone(make: Any) -> Callable[..., Features]:
    """The featurizer's method for single examples, which are not audited and need not reach every parameter."""
    found: Callable[..., Features] = getattr(make, "alone", make)
    return found


def check_row(store: Store, checkpoint: Checkpoint, side: str, now: Features, make: Any) -> None:
    """StoreError if the stored row of the one example in `now`, Features that `make` computed, differs from it."""
    if getattr(make, "draws", False):  # alone, an example has other random numbers than in its batch
        return
    (i,) = now.ids
    stored, now = store.read(checkpoint.key, side, [i]), store.rounded(checkpoint.key, side, now)
    types = [str(dtype).removeprefix("torch.") for dtype in getattr(make, "dtypes", ())] or ["float64"]
    allowed = max(TOLERANCE.get(t, 1e-3) for t in types) + _of_rounding(store.dtype)
    old, new = _same_length(_rows(stored), _rows(now))
    scale = np.linalg.norm(old, axis=1).sum() + np.linalg.norm(new, axis=1).sum()
    error = np.linalg.norm(old - new)
    if not error <= allowed * scale:
        raise StoreError(
            f"{side} example {i!r} at checkpoint {checkpoint.path} is not stored as it is made now: the two differ by "
            f"{error / scale:.2g} of their size (allowed {allowed:.0e}); the features in {store.path} were made by "
            "other code or other kernels; use a new folder"
        )


def _of_rounding(dtype: np.dtype) -> float:
    """What numbers that differ in their last bits differ by, once they are rounded alike.

    In int8, a number a little larger is rounded up a little more often, by one part in 127 of the largest.
    """
    return 0.02 if dtype == np.int8 else 4 * float(np.finfo(dtype).eps)


def _rows(one: Features) -> np.ndarray:
    """Rows to compare: the part from outside the loop first, then the steps."""
    values = one.values[0].reshape(-1, one.values.shape[-1]).astype(np.float64)
    outside = np.zeros_like(values[:1]) if one.outside is None else one.outside
    return np.concatenate([outside, values])


def _same_length(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Both padded with zeros to one number of steps: in a batch with longer examples, zeros follow an example's own."""
    most = max(len(x), len(y))
    return [np.pad(a, ((0, most - len(a)), (0, 0))) for a in (x, y)]
