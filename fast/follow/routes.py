"""Routes: from a module's call to its parameters' per-example gradients.

A native route knows the module's arithmetic; `replay` (its own file) differentiates one module per example and
serves everything else. A route is given the call's input `a` and the gradient `delta` at its output, and hands each
parameter's gradient to its sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..sketching.sinks import Sink, Slot


class NoBatchAxis(Exception):
    """The call's tensors do not carry one row per example: an enclosing module has to serve."""


Native = Callable[[Any, Tensor, Tensor, Mapping[str, Sink], Slot, int], None]


def linear(module: nn.Linear, a: Tensor, delta: Tensor, sinks: Mapping[str, Sink], slot: Slot, n: int) -> None:
    """c = W a + b: outer(delta, a) for W, delta for b, summed over tokens."""
    delta = per_example(delta, n)
    if "weight" in sinks:
        sinks["weight"].outer(slot, delta, per_example(a, n))
    if "bias" in sinks:
        sinks["bias"].whole(slot, token_sum(delta))


def conv1d_hf(module: Any, a: Tensor, delta: Tensor, sinks: Mapping[str, Sink], slot: Slot, n: int) -> None:
    """Hugging Face's Conv1D, a linear map with its weight transposed."""
    delta = per_example(delta, n)
    if "weight" in sinks:
        sinks["weight"].outer(slot, per_example(a, n), delta)
    if "bias" in sinks:
        sinks["bias"].whole(slot, token_sum(delta))


def embedding(module: nn.Embedding, a: Tensor, delta: Tensor, sinks: Mapping[str, Sink], slot: Slot, n: int) -> None:
    """Row a of the table receives delta; the padding row none."""
    delta = per_example(delta, n)
    index = per_example(a[..., None], n)[..., 0]
    if module.padding_idx is not None:
        delta = delta * (index != module.padding_idx)[..., None]
    sinks["weight"].rows(slot, index, delta)


def norm(module: Any, a: Tensor, delta: Tensor, sinks: Mapping[str, Sink], slot: Slot, n: int) -> None:
    """LayerNorm and RMSNorm, y = w x_hat + b: delta x_hat for w, delta for b, summed over tokens."""
    shape = tuple(module.normalized_shape)
    wide = torch.promote_types(delta.dtype, torch.float32)
    delta = per_example(delta.to(wide), n, len(shape))
    if "weight" in sinks:
        a = a.to(wide)
        a_hat = (
            F.layer_norm(a, shape, eps=module.eps)
            if isinstance(module, nn.LayerNorm)
            else F.rms_norm(a, shape, eps=module.eps)
        )
        sinks["weight"].whole(slot, token_sum(per_example(a_hat, n, len(shape)).mul_(delta)))
    if "bias" in sinks:
        sinks["bias"].whole(slot, token_sum(delta))


def convolution(module: Any, a: Tensor, delta: Tensor, sinks: Mapping[str, Sink], slot: Slot, n: int) -> None:
    """One- and two-dimensional, ungrouped: a linear map of patches, one per place."""
    if a.shape[0] != n or a.dim() != delta.dim() or delta.dim() != 2 + len(module.kernel_size):
        raise NoBatchAxis
    delta = delta.flatten(2).transpose(1, 2)  # (n, places, d_out)
    if "weight" in sinks:
        flat = len(module.kernel_size) == 1

        def pair(x: tuple[int, ...], other: int) -> tuple[int, ...]:
            return (other, *x) if flat else x

        patches = F.unfold(
            a[:, :, None] if flat else a,
            pair(module.kernel_size, 1),
            dilation=pair(module.dilation, 1),
            padding=pair(module.padding, 0),
            stride=pair(module.stride, 1),
        )
        sinks["weight"].outer(slot, delta, patches.transpose(1, 2))
    if "bias" in sinks:
        sinks["bias"].whole(slot, token_sum(delta))


def native_route(module: Any) -> tuple[str, Native] | None:
    """The native route of a module, with its name; None where its forward is not one that we know."""
    forward = type(module).forward
    if "forward" in vars(module):  # replaced on the instance
        return None
    if forward is nn.Linear.forward:
        return "linear", linear
    if forward is nn.Embedding.forward and module.max_norm is None and not module.scale_grad_by_freq:
        return "embedding", embedding
    if forward in (nn.LayerNorm.forward, nn.RMSNorm.forward):
        return "norm", norm
    if type(module).__name__ == "Conv1D" and isinstance(getattr(module, "nf", None), int):
        return "linear (transposed)", conv1d_hf
    plain = forward in (nn.Conv1d.forward, nn.Conv2d.forward) and module.groups == 1
    if plain and module.padding_mode == "zeros" and not isinstance(module.padding, str):
        return "convolution", convolution
    return None


def per_example(x: Tensor, n: int, width: int = 1) -> Tensor:
    """x as (n, T, *trailing), the rows of each example together; NoBatchAxis if its first axis is not n. width: how
    many trailing axes belong to one row."""
    lead, trailing = x.shape[: x.dim() - width], x.shape[x.dim() - width :]
    if n != 1 and (not lead or lead[0] != n):
        raise NoBatchAxis
    return x.reshape(n, -1, *trailing) if x.numel() else x.new_zeros(n, 0, *trailing)


def token_sum(x: Tensor) -> Tensor:
    """The sum over tokens, axis 1, in at least single precision."""
    return x.sum(dim=1, dtype=torch.promote_types(x.dtype, torch.float32))
