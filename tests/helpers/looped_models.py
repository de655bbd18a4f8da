"""The small looped models of the tests, their losses and batches; `modules` holds what their bodies are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sdi import Loop

D, LENGTH, CLASSES, INPUTS = 6, 5, 3, 4
LOOP = Loop(body=["core", "norm"], step="core", end="end")
BODY = Loop(body="core", step="core", end="end")


class Looped(nn.Module):
    """read, [norm], tau times (core, [norm]), end, [norm], head. `weights_at[t]` replaces step t's weights if given."""

    def __init__(
        self,
        core: nn.Module,
        tau: int = 3,
        norm: nn.Module | None = None,
        around: Callable[[Callable[..., Any], Tensor], Tensor] | None = None,
        no_grad: int = 0,
        detach: int = 0,
    ) -> None:
        super().__init__()
        self.read, self.core, self.norm = nn.Linear(INPUTS, D), core, nn.Identity() if norm is None else norm
        self.end, self.head = nn.Identity(), nn.Linear(D, CLASSES)
        self.tau, self.around, self.no_grad, self.detach = tau, around, no_grad, detach
        self.weights_at: list[dict[str, Tensor]] | None = None

    def part(self, t: int, name: str) -> Callable[..., Any]:
        """A module as step t uses it; t = -1 is outside the loop."""
        module = getattr(self, name)
        if self.weights_at is None:
            return module
        copy_of = {id(p): self.weights_at[t].get(k) for k, p in self.named_parameters()}
        mine = {
            f"{prefix}.{local}".lstrip("."): copy_of[id(p)]
            for prefix, part in module.named_modules()
            for local, p in part._parameters.items()
            if p is not None
        }
        return lambda s: functional_call(module, mine, (s,), tie_weights=False)

    def forward(self, x: Tensor, tau: int | None = None) -> Tensor:
        s = self.part(-1, "norm")(self.read(x))
        for t in range(self.tau if tau is None else tau):
            core = self.part(t, "core")
            with torch.set_grad_enabled(torch.is_grad_enabled() and t >= self.no_grad):
                s = self.part(t, "norm")(core(s) if self.around is None else self.around(core, s))
            if t + 1 == self.detach:
                s = s.detach()
        return self.head(self.part(-1, "norm")(self.end(s)))


def square_loss(model: nn.Module, batch: dict[str, Any]) -> Tensor:
    y = model(batch["x"], batch.get("steps"))
    return (y - batch["y"]).square().flatten(1).mean(dim=1)


def make(core: nn.Module, seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> Looped:
    """Every parameter nothing special, norms included."""
    model = Looped(core, **options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.5, generator=generator)
    return model.to(dtype)


def make_xy(
    n: int = 3, seed: int = 1, dtype: torch.dtype = torch.float64, length: int | None = LENGTH
) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    lead = (n,) if length is None else (n, length)
    x, y = (torch.randn(*lead, k, generator=generator, dtype=torch.float64) for k in (INPUTS, CLASSES))
    return {"x": x.to(dtype), "y": y.to(dtype)}


class Own(nn.Module):
    """read, a loop of the subclass's own, head."""

    def __init__(self, core: nn.Module | None = None, d: int = D) -> None:
        super().__init__()
        self.read, self.core, self.head = (
            nn.Linear(INPUTS, d),
            nn.Linear(d, d) if core is None else core,
            nn.Linear(d, 3),
        )
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.normal_(0, 0.4, generator=generator)
        self.double()

    def forward(self, batch: Any) -> Tensor:
        return self.head(self.loop(self.read(batch["x"]), batch))

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for _ in range(3):
            h = self.core(h)
        return h


def squares(model: nn.Module, batch: Any) -> Tensor:
    return model(batch).square().flatten(1).mean(dim=1)


class Halting(nn.Module):
    """A loop whose length is in its weights: it takes more steps at one checkpoint than at another."""

    def __init__(self, tau: int = 2) -> None:
        super().__init__()
        self.inject, self.core, self.coda = nn.Identity(), nn.Linear(4, 4), nn.Identity()
        self.register_buffer("steps", torch.tensor(tau))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(int(self.steps)):
            x = torch.tanh(self.core(self.inject(x)))
        return self.coda(x)
