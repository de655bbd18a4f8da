"""Small training runs: a looped tanh net in float64, twelve examples, few updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import sdi

N, UPDATES, BATCH = 12, 14, 4
LOOP = sdi.Loop(body=["core"], step="core", end="head")
OPTIMISERS: dict[str, dict[str, Any]] = {
    "sgd": {"optimiser": sdi.SGD(), "rate": 0.3},
    "momentum": {"optimiser": sdi.SGD(momentum=0.9, dampening=0.1, weight_decay=0.01), "rate": 0.1},
    "nesterov": {"optimiser": sdi.SGD(momentum=0.8, nesterov=True), "rate": lambda k: 0.1 / (1 + k)},
    "clipped": {"optimiser": sdi.SGD(momentum=0.9), "rate": 0.1, "clip": 0.2},
    "adam": {"optimiser": sdi.Adam(), "rate": 0.02},
    "adam decay": {"optimiser": sdi.Adam(weight_decay=0.1, betas=(0.8, 0.95)), "rate": 0.02, "clip": 0.3},
    "adamw": {"optimiser": sdi.AdamW(), "rate": [0.03 * (1 - k / UPDATES) for k in range(UPDATES)]},
    "smooth adam": {"optimiser": sdi.Adam(eps_root=1e-3), "rate": 0.02},
    "averaged": {"optimiser": sdi.AdamW(), "rate": 0.02, "average": lambda k: min(0.8, k / (k + 3))},
    "averaged sgd": {"optimiser": sdi.SGD(), "rate": 0.05, "average": 0.7, "reduction": "sum"},
}


class LoopedNet(nn.Module):
    """read, tau times tanh(core(s) + read), head; `drop` drops out half of the state."""

    def __init__(self, d: int = 4, tau: int = 3, drop: float = 0.0) -> None:
        super().__init__()
        self.read, self.core, self.head = nn.Linear(3, d), nn.Linear(d, d), nn.Linear(d, 1)
        self.unused = nn.Parameter(torch.zeros(2))  # trained, and never reached: its gradient is exactly zero
        self.tau, self.drop = tau, nn.Dropout(drop)

    def forward(self, batch: Any) -> Tensor:
        e = self.read(batch["x"])
        s, out = torch.zeros_like(e), torch.zeros_like(e)
        tau = batch.get("tau", torch.full((len(e),), self.tau))
        for t in range(1, int(tau.max()) + 1):
            s = self.drop(torch.tanh(self.core(s) + e))
            out = torch.where((tau == t)[:, None], s, out)
        return self.head(out).squeeze(-1)


def make_net(seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> LoopedNet:
    model = LoopedNet(**options)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name != "unused":
                p.normal_(0, 0.6, generator=generator)
    return model.to(dtype)


def net() -> LoopedNet:
    return make_net()


def square_loss(model: Any, batch: Any) -> Tensor:
    return (model(batch) - batch["y"]).square() + 0 * model.unused.sum()


def rows(ids: Sequence[int], seed: int = 0, name: str = "t", ragged: bool = False) -> dict[str, Any]:
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    chosen = x[list(ids)]
    batch = {"id": [f"{name}{i}" for i in ids], "x": chosen, "y": chosen.prod(dim=1)}
    return {**batch, "tau": torch.tensor([2 + i % 2 for i in ids])} if ragged else batch


def make_run(case: str = "momentum", updates: int = UPDATES, **changes: Any) -> sdi.TrainingRun:
    order = np.random.default_rng(3)
    batches = [rows(order.choice(N, BATCH, replace=False).tolist()) for _ in range(updates)]
    options: dict[str, Any] = {"model": net, "loss": square_loss, "loop": LOOP, "batches": batches}
    return sdi.TrainingRun(**{**options, **OPTIMISERS[case], **changes})


QUERY = [rows([0, 1], seed=9, name="q"), rows([2], seed=9, name="q")]
