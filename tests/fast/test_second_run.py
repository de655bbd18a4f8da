"""What a module raises when it is run again is said in our words, with its name and the remedy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import sdi
import sdi.fast


class Cell(nn.Module):
    """Takes one entry from an iterator at every call: there is none left when it is run again."""

    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.inner, self.gain = nn.Linear(3, 3), nn.Parameter(torch.ones(3)) if bare else 1.0

    def forward(self, x: Any, shifts: Any) -> Any:
        return torch.tanh(self.inner(x)) * self.gain + next(shifts)


class Net(nn.Module):
    def __init__(self, bare: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = Cell(bare)
        self.double()

    def forward(self, x: Any) -> Any:
        shifts = iter([0.1, 0.2, 0.3])
        for _ in range(3):
            x = self.cell(x, shifts)
        return x


def loss(model: Any, batch: Any) -> Any:
    return model(batch["x"]).square().sum(-1)


BATCH = {"x": torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))}
LOOP = sdi.Loop("cell", "cell")


def test_recompute_names_the_module_and_hooks() -> None:
    assert sdi.fast.featurize(Net(), loss, BATCH, loop=LOOP, memory="hooks").phi.shape[1] == 3
    with pytest.raises(sdi.CoverageError, match=r"^a Cell fails when it is run again .*StopIteration.*memory='hooks'$"):
        sdi.fast.featurize(Net(), loss, BATCH, loop=LOOP, memory="recompute")


def test_a_replayed_module_is_named_with_another_remedy() -> None:
    with pytest.raises(
        sdi.CoverageError, match=r"^a Cell fails when it is run again .*leave it out of Loop\(body=...\)$"
    ):
        sdi.fast.featurize(Net(bare=True), loss, BATCH, loop=LOOP, memory="hooks")
