"""The one seam between the core and the rooms beside it.

Code in `sdi/` never names a backend in an import statement: it asks for it here, by name, and gets it typed as
a protocol. So `import sdi` costs no torch, and the arrows point one way: backends know the core.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
from jaxtyping import Float

from sdi.errors import nearest
from sdi.loop import Loop
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

BACKENDS = ("reference", "fast")
Array = np.ndarray


class Featurize(Protocol):
    """examples -> Features. `loss(model, batch)` gives one value per example."""

    def __call__(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any],
        batch: Mapping[str, Any],
        *,
        loop: Loop,
        sketch: SketchMap | None = None,
        steps: bool = True,
        ids: Sequence[str] = (),
    ) -> Features: ...


class Backend(Protocol):
    """What every backend exports, with these signatures."""

    featurize: Featurize
    Featurizer: Callable[..., Any]  # `featurize` with all but the batch given: Featurizer(...)(batch, ids)
    with_weights: Callable[[Any, Mapping[str, Any]], Any]  # the model with a checkpoint's weights
    weights_kept: Callable[[Any], AbstractContextManager[None]]  # the model keeps its own weights in the end
    body_shapes: Callable[[Any, Loop], dict[str, tuple[int, ...]]]
    tracin: Callable[[Any, Any], Float[Array, "n q"]]
    sdi: Callable[[Any, Any], Float[Array, "n q tau"]]
    sdi_train: Callable[[Any, Any], Float[Array, "n q tau"]]
    step_matrix: Callable[[Any, Any], Float[Array, "n q tau_train tau_query"]]


def backend(name: str) -> Backend:
    """A backend by name: "reference" (dense NumPy, exact) or "fast" (PyTorch).

    >>> backend("reference").__name__
    'sdi.reference'
    """
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {name!r}{nearest(str(name), BACKENDS)}")
    return cast(Backend, room(name))


def room(name: str) -> ModuleType:
    """One of the rooms beside `sdi/`, imported when asked."""
    return importlib.import_module(f"sdi.{name}")
