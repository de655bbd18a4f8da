"""Load a checkpoint's weights into a model, and restore its own afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from sdi.inputs.match_weights import match_names
from sdi.inputs.unwrap import unwrapped_model
from sdi.loop import Loop

from .follow.body import find_body


def with_weights(model: nn.Module, weights: Mapping[str, Any]) -> nn.Module:
    """The model itself (the plain one, if it is wrapped), with these weights copied into its parameters and buffers.

    weights: tensors by name; of tied parameters, one is enough. Missing or misshapen ones are refused before any copy.
    """
    model = unwrapped_model(model)
    own = _tensors(model)
    given = dict(weights)
    for name in own.keys() - given.keys():
        twin = next((n for n in given if n in own and _is_tied(own[n], own[name])), None)
        given.update({} if twin is None else {name: given[twin]})
    shapes = {name: tuple(t.shape) for name, t in own.items()}
    matched = match_names(given, shapes, [name for name, t in own.items() if t.is_complex()])
    tensors = {name: torch.as_tensor(matched[name]) for name in own}
    for name, tensor in own.items():
        if not _survives(tensors[name], tensor.dtype):
            raise ValueError(
                f"the checkpoint does not fit the model: {name!r} holds {tensors[name].dtype} whose numbers change as "
                f"the model's {tensor.dtype}"
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
    return model


def _survives(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether x can become dtype: to integers or bools only without loss; floats may be rounded."""
    if dtype.is_floating_point or dtype.is_complex or x.dtype == dtype:
        return True
    return torch.equal(x.to(dtype).to(x.dtype), x)


@contextmanager
def weights_kept(model: nn.Module) -> Iterator[None]:
    """Restore the model's weights when the block is left, whatever was loaded in between."""
    kept = {name: tensor.clone() for name, tensor in _tensors(model).items()}
    try:
        yield
    finally:
        with_weights(model, kept)


def body_shapes(model: nn.Module, loop: Loop) -> dict[str, tuple[int, ...]]:
    """The shape of every body parameter, by name. model: an `nn.Module`. loop: which of its parameters are the body."""
    return find_body(unwrapped_model(model), loop).shapes


def _is_tied(x: Tensor, y: Tensor) -> bool:
    return x.numel() > 0 and (x.data_ptr(), x.shape, x.stride()) == (y.data_ptr(), y.shape, y.stride())


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
