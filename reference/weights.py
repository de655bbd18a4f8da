"""Weights of checkpoints in a model: the twin of `fast/weights.py`, without changing anything in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sdi.inputs.match_weights import match_names
from sdi.loop import Loop, check_loop

from .model import LoopedTransformer


def with_weights(model: LoopedTransformer, weights: Mapping[str, Any]) -> LoopedTransformer:
    """A new model of the same config with these weights. weights: arrays or tensors by parameter name."""
    return LoopedTransformer(model.config, match_names(weights, model.config.shapes()))


@contextmanager
def weights_kept(model: LoopedTransformer) -> Iterator[None]:
    """Does nothing: `with_weights` makes a new model and leaves `model` as it is."""
    yield


def body_shapes(model: LoopedTransformer, loop: Loop) -> dict[str, tuple[int, ...]]:
    """The shape of every body parameter, by name. model: a `LoopedTransformer`. loop: which parameters are the body."""
    check_loop(loop)
    shapes = model.config.shapes()
    return {name: shapes[name] for name in loop.select(shapes)}
