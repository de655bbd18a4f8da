"""Where a graph begins. Asking autograd for the gradients there pulls back through the whole graph, and so to every
hook; asking for fewer would prune the paths that lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from sdi.errors import CoverageError


def carries_gradient(y: Any) -> bool:
    return isinstance(y, Tensor) and (y.dtype.is_floating_point or y.dtype.is_complex)


def begin_graph(y: Tensor) -> Tensor:
    """y, requiring a gradient, so that autograd's graph begins here if nothing before requires one."""
    return y.detach().requires_grad_().clone()  # a clone may be changed in place by what follows; a leaf may not


def under(y: Tensor) -> Tensor:
    """The tensor that y is a reshaped view of, or y itself. A hook on a view is lost when the view is changed in place.

    With a bias and three axes, nn.Linear returns a view.
    """
    base = y._base
    if base is None or not (base.requires_grad and base.numel() == y.numel()):
        return y
    return base if base.is_contiguous() and y.is_contiguous() else y


def graph_leaves(outputs: Iterable[Tensor]) -> list[Tensor]:
    """The tensors where the graph of these outputs begins, whoever made them."""
    leaves: dict[int, Tensor] = {}
    stack: list[Any] = []
    for y in outputs:
        if y.grad_fn is None:
            leaves[id(y)] = y
        else:
            stack.append(y.grad_fn)
    seen = set(stack)
    while stack:
        node = stack.pop()
        if hasattr(node, "variable"):
            leaves[id(node.variable)] = node.variable
        for upstream, _ in node.next_functions:
            if upstream is not None and upstream not in seen:
                seen.add(upstream)
                stack.append(upstream)
    return list(leaves.values())


def refuse_transforms() -> None:
    """Raise under vmap and other function transforms, where there is no graph of the whole batch."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise CoverageError(
            "the loop was called under torch.vmap or torch.func.grad, where calls cannot be followed; let "
            "loss(model, batch) call the model on the whole batch"
        )


def refuse_nested(name: str, output: Any) -> None:
    leaves = [output] if isinstance(output, Tensor) else pytree.tree_leaves(output)
    if any(isinstance(y, Tensor) and y.is_nested for y in leaves):
        raise CoverageError(
            f"module {name!r} was called with a nested tensor, which cannot be followed; pad it, or pack its rows into "
            "(total, d)"
        )
