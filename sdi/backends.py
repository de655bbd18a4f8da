"""Backends by name: the only place where `sdi/` imports `reference/`, `fast/` or another folder beside it.

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
    """A batch of examples -> their Features, dense or sketched.

    model: what the backend works on. loss: a function of model and batch that returns one value per example.
    batch: a batch as `loss` takes it. loop: the body, and the module whose call begins a step.
    sketch: one sketch per body parameter; None keeps gradients whole.
    steps: False sums over loop steps. ids: a name for each example; by default they are numbered from 0.
    """

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
    weights_kept: Callable[[Any], AbstractContextManager[None]]  # restores the model's weights when left
    body_shapes: Callable[[Any, Loop], dict[str, tuple[int, ...]]]
    tracin: Callable[[Any, Any], Float[Array, "n q"]]
    sdi: Callable[[Any, Any], Float[Array, "n q tau"]]
    sdi_train: Callable[[Any, Any], Float[Array, "n q tau"]]
    step_matrix: Callable[[Any, Any], Float[Array, "n q tau_train tau_query"]]


def backend(name: str) -> Backend:
    """A backend by name: "reference" (dense NumPy, exact) or "fast" (PyTorch).

    name: one of the two. Returns the module, as `Backend` describes it.

    >>> backend("reference").__name__
    'sdi.reference'
    """
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got {name!r}{nearest(str(name), BACKENDS)}")
    return cast(Backend, room(name))


def room(name: str) -> ModuleType:
    """Import one of the folders beside `sdi/` ("fast", "bench", ...) and return it as a module."""
    return importlib.import_module(f"sdi.{name}")
