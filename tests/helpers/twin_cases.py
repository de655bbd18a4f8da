"""Numbers, sketches and twins for the tests of sketches on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sketch_cases import NAMES, Bare, WithTwin
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sdi import load_sketch

CPU = torch.device("cpu")
CUDA = torch.device("cuda")
TWINS = [*(name for name in NAMES if name not in ("tensor", "exact")), WithTwin, Bare]
DTYPES = {torch.float64: 1e-13, torch.float32: 1e-5}
BYTES = [1, 700, 1 << 20]  # of a workspace: one row at a time, a few, all


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def drawn(spec: Any, shape: tuple[int, ...], m: int = 6) -> Any:
    cls = load_sketch(spec) if isinstance(spec, str) else spec
    return cls.draw(shape, m, seed=3, name="w")


def near(got: Tensor, wanted: np.ndarray | Tensor, tolerance: float) -> None:
    wanted = torch.as_tensor(np.asarray(wanted))
    assert got.shape == wanted.shape
    assert (got.double() - wanted.double()).abs().max() <= tolerance * max(float(wanted.abs().max()), 1e-30)


def row_sums(index: Tensor, v: Tensor, rows: int) -> Tensor:
    """The sum over tokens of outer(one_hot(index), v)."""
    return torch.einsum("ntr,ntd->nrd", torch.nn.functional.one_hot(index, rows).to(v.dtype), v)


class OnOneDevice(TorchFunctionMode):
    """What is made must be made on a device that is given by name; it is made here, and counted: CUDA is not there."""

    def __init__(self, device: torch.device = CUDA) -> None:
        super().__init__()
        self.device, self.made = device, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func in (torch.tensor, torch.zeros, torch.empty, torch.as_tensor):
            assert options.pop("device", None) == self.device, f"{func.__name__} without the device"
            self.made += 1
        if func is Tensor.to and any(x is not None and x == self.device for x in (*args[1:], options.get("device"))):
            self.made += 1
            args, options = (
                [args[0], *(x for x in args[1:] if x != self.device)],
                {k: x for k, x in options.items() if k != "device"},
            )
            if len(args) == 1 and not options:
                return args[0]
        return func(*args, **options)


class Counting:
    """A twin of a (4, 3) parameter that notes the sizes of what it is given."""

    def __init__(self, each: int | None = None, forms: bool | None = None) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        if each is not None:
            self.token_numbers = each
        if forms is not None:
            self.forms = lambda tokens: forms

    def apply(self, G: Tensor) -> Tensor:
        self.calls.append(("apply", tuple(G.shape)))
        return torch.zeros(len(G), 6, dtype=torch.float64)

    def apply_outer(self, u: Tensor, v: Tensor) -> Tensor:
        self.calls.append(("outer", tuple(u.shape)))
        return torch.zeros(len(u), 6, dtype=torch.float64)

    def apply_rows(self, index: Tensor, v: Tensor) -> Tensor:
        self.calls.append(("rows", tuple(v.shape)))
        return torch.zeros(len(v), 6, dtype=torch.float64)
