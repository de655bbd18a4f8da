"""PlainLinear: calls of `nn.Linear`, whose four operations have one rule, so that none of them need be seen.

To show a mode an operation in Python costs as much as a small operation itself, and a linear map of tokens is four: a
transpose, two views and a product. Only what is known to be that is taken at once; everything else is seen operation by
operation, as ever: subclasses, parametrised weights, modules with hooks of the user, a patched `nn.Linear.forward` or
`F.linear`, other modes, transforms, tensors of other classes, devices whose kernels may be Python themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks

from .value_proof import ValueProof
from .value_rules import At

DEVICES = ("cpu", "cuda", "mps", "xpu")
FORWARD = nn.Linear.forward
IS_PYTORCHS = FORWARD.__code__.co_filename == torch.nn.modules.linear.__file__ and F.linear is torch._C._nn.linear


class PlainLinear:
    """Of one forward pass, which stands within it. proof: which follows the operations."""

    def __init__(self, proof: ValueProof) -> None:
        self.proof = proof
        self._hidden: Any = None  # what hides the operations of the call that is going on
        self._at: At = (0, 1)  # where examples are in its input
        self._found: dict[Any, Any] = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._show()  # after an interrupt, of which no hook is told

    def enter(self, module: nn.Linear, args: Sequence[Any]) -> None:
        """It is about to be called, and nothing else happens until `leave`."""
        a = args[0] if len(args) == 1 else None
        if (
            type(a) is not Tensor
            or a.device.type not in DEVICES
            or not self.proof.follows_plainly
            or not is_plain(module)
        ):
            return
        for p in module._parameters.values():
            if p is not None and self.proof.mark(p) is not None:
                return  # written to, from what depends on examples
        key = self.proof.mark(a), a.shape, a.stride(), a.storage_offset(), a.dtype
        if key not in self._found:
            at = self.proof.place(a)
            self._found[key] = at if at is not None and at[0] < a.dim() - 1 else None  # the last axis is summed over
        at = self._found[key]
        if at is not None:
            self._at, self._hidden = at, torch._C._DisableTorchDispatch()
            self._hidden.__enter__()

    def leave(self, module: nn.Linear, y: Any) -> None:
        """It has returned y; None if it raised."""
        if self._hidden is None:
            return
        self._show()
        if y is not None:
            key = self._at, y.shape, y.stride(), y.dtype
            if key not in self._found:
                self._found[key] = self.proof.tag(y, self._at)
            self.proof.made(y, self._found[key], module._parameters.values())

    def _show(self) -> None:
        """From now on operations are seen again."""
        hidden, self._hidden = self._hidden, None
        if hidden is not None:
            hidden.__exit__(None, None, None)


def is_plain(module: nn.Module) -> bool:
    """Whether a call of it is PyTorch's `F.linear` of its own parameters, with no hooks or modes but ours.

    >>> is_plain(nn.Linear(2, 2))  # outside of a pass: no hooks at all
    False
    """
    return (
        type(module) is nn.Linear
        and IS_PYTORCHS
        and nn.Linear.forward is FORWARD
        and F.linear is torch._C._nn.linear
        and len(module._forward_pre_hooks) == len(module._forward_hooks) == 1
        and vars(module).keys().isdisjoint(("forward", "weight", "bias"))
        and torch._C._len_torch_dispatch_stack() == 1
        and torch._C._len_torch_function_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and not _global_forward_hooks
    )
