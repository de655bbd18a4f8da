"""Looped models whose forward uses parameters by name, in ways that are served (CASES), and in ways that are refused.

Each can be given another copy of every parameter for each step, and for what is outside: then autograd is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

D, TAU, OUTSIDE = 4, 3, 3
Copies = list[dict[str, Tensor]]


class Named(nn.Module):
    """A loop that uses parameters of its own; `copies[t]` replaces those of step t if given, the last those outside."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.core, self.end = nn.Linear(4, D), nn.Sequential(nn.Linear(D, D), nn.Tanh()), nn.Identity()
        self.h0, self.alpha = nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(()))
        self.gate, self.mix = nn.Parameter(torch.zeros(1, 1, D)), nn.Parameter(torch.zeros(D, D))
        self.times, self.head = nn.Embedding(TAU, D), nn.Linear(D, 3)
        self.copies: Copies | None = None
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.normal_(0, 0.5, generator=generator)
        self.double()

    def at(self, t: int, name: str) -> Tensor:
        return self.get_parameter(name) if self.copies is None else self.copies[t][name]

    def step(self, t: int, h: Tensor) -> Tensor:
        if self.copies is None:
            return self.core(h)
        own = {k.removeprefix("core."): w for k, w in self.copies[t].items() if k.startswith("core.")}
        return functional_call(self.core, own, (h,))

    def forward(self, batch: Any) -> Tensor:
        h = self.loop(self.read(batch["x"]), batch)
        return self.head(self.end(h))

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        raise NotImplementedError


class FirstState(Named):
    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = self.at(OUTSIDE, "h0").expand(e.shape)
        for t in range(TAU):
            h = self.step(t, h + e)
        return h


class Gates(Named):
    """Used in the step, of the shape of a number, a row and a matrix, one of them twice."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h)
            gate = torch.sigmoid(self.at(t, "gate"))
            h = gate * h + (1 - gate) * e @ self.at(t, "mix") + self.at(t, "alpha") * h.square()
        return h


class MadeOutside(Named):
    """A value made of a parameter before the loop counts outside, wherever it is used."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        gate, h = torch.sigmoid(self.at(OUTSIDE, "gate")), e
        for t in range(TAU):
            h = gate * self.step(t, h) + self.at(t, "h0").unsqueeze(0)
        return h


class StepEmbedding(Named):
    """A module that is called without the batch: its output is shared by all examples."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h)
            number = torch.tensor(t)
            if self.copies is None:
                h = h + self.times(number)
            else:
                h = h + functional_call(self.times, {"weight": self.copies[t]["times.weight"]}, (number,))
        return h


class Tied(Named):
    """A weight that is called as a module and used by name."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h)
            h = h + torch.nn.functional.linear(h, self.at(t, "core.0.weight"))
        return h


class Indexed(Named):
    """Rows are gathered, so that it is not proven whose they are."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h)
            order = torch.arange(len(h)).flip(0)
            h = (h[order] * self.at(t, "gate"))[order]
        return h


class Argument(Named):
    """A parameter is an argument of the module that is run again, and used in the same step beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Scaled().double()

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            if self.copies is None:
                h = self.core(h, self.gate)
            else:
                own = {k.removeprefix("core."): w for k, w in self.copies[t].items() if k.startswith("core.")}
                h = functional_call(self.core, own, (h, self.copies[t]["gate"]))
            h = h + self.at(t, "gate") * e
        return h


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)

    def forward(self, h: Tensor, gate: Tensor) -> Tensor:
        return torch.tanh(self.lin(h) * gate)


class CalledByForward(Named):
    """A module that no hook sees."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h)
            w, b = (self.at(t, f"extra.{name}") for name in ("weight", "bias"))
            h = self.extra.forward(h) if self.copies is None else torch.nn.functional.linear(h, w, b)
        return h

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(D, D).double()


class Unused(Named):
    """No step uses it in a batch of depth 1."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(int(batch["depth"][0]) if "depth" in batch else TAU):
            h = self.step(t, h)
            h = h * self.at(t, "gate") if t else h
        return h


class RowFirst(Named):
    """A row is taken by number before the call that begins its step, and is used after it."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Parameter(torch.rand(TAU + 2, D, dtype=torch.float64))  # more than there are steps
        self.alphas = nn.Parameter(torch.rand(2, TAU, dtype=torch.float64))

    def row(self, t: int, name: str, *at: int) -> Tensor:
        return getattr(self, name)[at if len(at) > 1 else at[0]] if self.copies is None else self.at(t, name)[at]

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.row(t, "gates", t) * self.step(t, h) + e * self.row(t, "alphas", 1, -1)
        return h


class RowsInTurn(RowFirst):
    """All rows are taken before the loop: by iteration, and by unbind."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        gates = list(self.gates)[:TAU] if self.copies is None else [self.at(t, "gates")[t] for t in range(TAU)]
        first = self.alphas.unbind()[0] if self.copies is None else None
        for t, gate in enumerate(gates):
            alpha = self.at(t, "alphas")[0] if first is None else first
            h = gate * self.step(t, h) + e * alpha.sum()
        return h


class RowInFunction(RowFirst):
    """Of a row that PyTorch does not show to us: what takes it is no operation of its own."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h)
            h = Times.apply(h, self.row(t, "gates", t))
        return h


class Times(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, gate: Tensor) -> Tensor:
        ctx.save_for_backward(h, gate)
        return h * gate

    @staticmethod
    def backward(ctx: Any, delta: Tensor) -> tuple[Tensor, Tensor]:
        h, gate = ctx.saved_tensors
        return delta * gate, (delta * h).sum(dim=0)


CASES: dict[str, tuple[Callable[[], Named], list[str]]] = {
    "first state": (FirstState, ["h0"]),
    "gates": (Gates, ["gate", "mix", "alpha"]),
    "made outside": (MadeOutside, ["gate", "h0"]),
    "step embedding": (StepEmbedding, ["times.weight"]),
    "tied": (Tied, []),
    "gathered rows": (Indexed, ["gate"]),
    "argument": (Argument, ["gate"]),
    "called by .forward": (CalledByForward, ["extra.weight", "extra.bias"]),
    "not in every step": (Unused, ["gate"]),
    "a row taken first": (RowFirst, ["gates", "alphas"]),
    "rows in turn": (RowsInTurn, ["gates", "alphas"]),
    "a row in a function": (RowInFunction, ["gates"]),
}


class Mixing(Named):
    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h) * self.at(t, "gate")
            h = h - h.mean(dim=0)
        return h


class Signs(Named):
    """A hook takes the sign of a gradient, so that the examples' do not add up to it."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h)
            gate = self.at(t, "gate") * 1
            if gate.requires_grad:
                gate.register_hook(torch.sign)
            h = h * gate
        return h


class Hidden(Named):
    """A parameter that a module uses which neither holds it nor is given it."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Borrowing([self.gate]).double()

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        for t in range(TAU):
            e = self.step(t, e)
        return e


class Borrowing(nn.Module):
    def __init__(self, lent: list[Tensor]) -> None:
        super().__init__()
        self.lin, self.lent = nn.Linear(D, D), lent

    def forward(self, h: Tensor) -> Tensor:
        return self.lin(h) * self.lent[0]


class Injected(Named):
    """Used before the call that begins a step."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h * self.at(t, "gate") + e * self.at(t, "gate"))
        return h


class InjectedRow(RowFirst):
    """Taken and used before the call that begins a step."""

    def loop(self, e: Tensor, batch: Any) -> Tensor:
        h = e
        for t in range(TAU):
            h = self.step(t, h * self.gates[t])
        return h
