"""probe: one stored row against the same row made now. A fingerprint cannot see all the code that a row depends on."""

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
    """A featurizer as it makes one example of a batch, which is not audited and need not reach every parameter."""
    found: Callable[..., Features] = getattr(make, "alone", make)
    return found


def check_row(store: Store, checkpoint: Checkpoint, side: str, now: Features, make: Any) -> None:
    """Refuse a store whose row of the one example in `now`, which `make` made, is not what it is now."""
    if getattr(make, "draws", False):  # alone, an example has other random numbers than in its batch
        return
    (i,) = now.ids
    stored = store.read(checkpoint.key, side, [i])
    types = [str(dtype).removeprefix("torch.") for dtype in getattr(make, "dtypes", ())] or ["float64"]
    allowed = max(TOLERANCE.get(t, 1e-3) for t in types) + 4 * float(np.finfo(store.dtype).eps)
    old, new = _same_length(_rows(stored), _rows(now))
    scale = np.linalg.norm(old, axis=1).sum() + np.linalg.norm(new, axis=1).sum()
    error = np.linalg.norm(old - new)
    if not error <= allowed * scale:
        raise StoreError(
            f"{side} example {i!r} at checkpoint {checkpoint.path} is not stored as it is made now: the two differ by "
            f"{error / scale:.2g} of their size (allowed {allowed:.0e}); the features in {store.path} were made by "
            "other code or other kernels; use a new folder"
        )


def _rows(one: Features) -> np.ndarray:
    """What enters outside the loop, then the steps."""
    values = one.values[0].reshape(-1, one.values.shape[-1]).astype(np.float64)
    outside = np.zeros_like(values[:1]) if one.outside is None else one.outside
    return np.concatenate([outside, values])


def _same_length(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """In a batch with longer ones, an example's steps are followed by zeros."""
    most = max(len(x), len(y))
    return [np.pad(a, ((0, most - len(a)), (0, 0))) for a in (x, y)]
