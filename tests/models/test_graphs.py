"""Looped graph networks of PyTorch Geometric: each graph alone, with parameters of its own per step, to 1e-9."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from unrolled import unrolled

import sdi
import sdi.fast
from sdi import lm
from sdi.inputs.batches import take_examples

LOOP = sdi.Loop("core", "core")


class Network(nn.Module):
    def __init__(self, kind: str) -> None:
        from torch_geometric.nn import GATConv, GCNConv, GINConv

        super().__init__()
        torch.manual_seed(0)
        self.read, self.head = nn.Linear(4, 6), nn.Linear(6, 2)
        if kind == "gcn":
            self.core = GCNConv(6, 6)
        elif kind == "gat":
            self.core = GATConv(6, 3, heads=2)
        else:
            self.core = GINConv(nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6)), train_eps=True)
        self.double().eval()

    def forward(self, graphs: Any) -> Tensor:
        from torch_geometric.nn import global_mean_pool

        h = self.read(graphs.x)
        for _ in range(3):
            h = torch.tanh(self.core(h, graphs.edge_index))
        return self.head(global_mean_pool(h, graphs.batch))


def loss(model: nn.Module, graphs: Any) -> Tensor:
    return (model(graphs) - graphs.y).square().mean(dim=1)


def ring(size: int, seed: int) -> Any:
    from torch_geometric.data import Data

    generator, i = torch.Generator().manual_seed(seed), torch.arange(size)
    edges = torch.stack([i, (i + 1) % size])
    x, y = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((size, 4), (1, 2)))
    return Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=y)


RINGS = [(3, 0), (4, 1), (5, 2), (6, 3), (3, 4), (4, 5)]


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("kind", ["gcn", "gin", "gat"])
def test_step_gradients_of_graphs_are_those_of_each_graph_alone(kind: str, memory: str) -> None:
    from torch_geometric.loader import DataLoader

    model = Network(kind)
    run = sdi.fast.Featurizer(model, loss, loop=LOOP, memory=memory)
    for graphs in DataLoader([ring(*one) for one in RINGS], batch_size=3):
        found = run(graphs)
        for i in range(3):
            phi, _ = unrolled(model, loss, LOOP, take_examples(graphs, [i], 3))
            assert np.linalg.norm(found.phi[i] - phi) <= 1e-9 * np.linalg.norm(phi)


def test_graphs_are_attributed_from_a_shuffled_loader(tmp_path: Path) -> None:
    from torch_geometric.loader import DataLoader

    model, rings = Network("gcn"), [ring(*one) for one in RINGS]
    lm.save_checkpoint(tmp_path / "a.safetensors", model, 0.5)
    one, other = (
        sdi.attribute(
            model, loss=loss, loop=LOOP, checkpoints=tmp_path / "a.safetensors", m=16,
            train=DataLoader(rings, batch_size=size, shuffle=size < 6), query=DataLoader(rings[:2], batch_size=2),
            spread=False,
        )
        for size in (4, 6)
    )  # fmt: skip
    assert one.labels == other.labels
    np.testing.assert_allclose(one.tracin, other.tracin, rtol=1e-4)
