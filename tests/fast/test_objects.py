"""Arguments and outputs that are objects with tensors in them (caches, dataclasses, states), and batches of graphs.

The oracle runs each example alone, with a copy of the weights for every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fast_cases import assert_near, example, leaving_as_it_came, row_norms
from looped_models import make_xy
from torch import Tensor, nn
from torch.func import functional_call

import sdi
from sdi import Loop, lm
from sdi.fast import Featurizer
from sdi.inputs.batches import count_examples, digests, take_examples
from sdi.report.examples import one_example

D, TAU = 4, 3
LOOP = Loop("core", "core")


@dataclass
class State:
    h: Tensor
    t: int = 0


class Slotted:
    __slots__ = ("h",)

    def __init__(self, h: Tensor) -> None:
        self.h = h


class Cache:
    """Keys of the steps before, as `use_cache` keeps them: `layers` of a list each."""

    def __init__(self) -> None:
        self.layers: dict[str, list[Tensor]] = {}

    def update(self, k: Tensor) -> Tensor:
        self.layers.setdefault("core", []).append(k)
        return torch.cat(self.layers["core"], dim=1)


class Core(nn.Module):
    """A linear map, a norm and, if `bare`, a parameter of its own that has to be replayed."""

    def __init__(self, how: str, bare: bool) -> None:
        super().__init__()
        self.how, self.lin, self.norm = how, nn.Linear(D, D), nn.LayerNorm(D)
        self.scale = nn.Parameter(torch.zeros(D)) if bare else None

    def forward(self, given: Any, also: Any = None) -> Any:
        h = given if isinstance(given, Tensor) else given.h
        y = torch.tanh(self.norm(self.lin(h)))
        y = y if self.scale is None else y * self.scale
        if self.how == "cache":
            y = y + also.update(y).mean(dim=1, keepdim=True)
        if self.how == "state beside":
            y = y + also.h
        return State(y) if self.how == "dataclass out" else Slotted(y) if self.how == "object out" else y


class Model(nn.Module):
    def __init__(self, how: str, bare: bool = False) -> None:
        super().__init__()
        self.how, self.read, self.core, self.head = how, nn.Linear(4, D), Core(how, bare), nn.Linear(D, 3)
        self.copies: list[dict[str, Tensor]] | None = None
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.normal_(0, 0.5, generator=generator)
        self.double()

    def call(self, t: int, *args: Any) -> Any:
        return self.core(*args) if self.copies is None else functional_call(self.core, self.copies[t], args)

    def forward(self, x: Tensor) -> Tensor:
        h, cache = self.read(x), Cache()
        for t in range(TAU):
            if self.how == "cache":
                h = self.call(t, h, cache)
            elif self.how == "state beside":
                h = self.call(t, h, State(h.square()))
            else:
                given = {"dataclass in": State, "object in": Slotted}.get(self.how, lambda h: h)(h)
                h = self.call(t, given)
            h = h if isinstance(h, Tensor) else h.h
        return self.head(h)


def loss(model: nn.Module, batch: Any) -> Tensor:
    return model(batch["x"]).square().flatten(1).mean(dim=1)


def truth(model: Any, alone: Sequence[Any], value_of: Any) -> np.ndarray:
    rows = []
    for one in alone:
        weights = dict(model.core.named_parameters())
        copies = [{k: p.detach().clone().requires_grad_() for k, p in weights.items()} for _ in range(TAU)]
        model.copies = copies
        try:
            value = value_of(model, one).sum()
        finally:
            model.copies = None
        grads = torch.autograd.grad(value, [w for copy in copies for w in copy.values()])
        rows.append(torch.cat([g.flatten() for g in grads]).view(TAU, -1))
    return torch.stack(rows).numpy()


HOWS = ("plain", "dataclass in", "object in", "dataclass out", "object out", "cache", "state beside")


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("how", HOWS)
def test_objects_with_tensors_in_them_carry_gradients(how: str, bare: bool, memory: str) -> None:
    model, batch = Model(how, bare), make_xy()
    run = Featurizer(model, loss, loop=LOOP, memory=memory)
    phi = truth(model, [example(batch, i) for i in range(3)], loss)
    for _ in range(2):  # the second batch finds what was learned in the first
        with leaving_as_it_came(model):
            found = run(batch)
        assert_near(found.values, phi, row_norms(phi), how)


def test_only_modules_that_cannot_be_run_again_keep_their_graph() -> None:
    plain, cached = (Featurizer(Model(how), loss, loop=LOOP, memory="recompute", audit="off") for how in HOWS[::5])
    for run in (plain, cached):
        run(make_xy())
    assert (plain.memory.graph_kept, cached.memory.graph_kept) == ([], [cached.model.core])


class Gated(Model):
    """A parameter used by name leads into the object that the first step is given."""

    def __init__(self) -> None:
        super().__init__("dataclass in")
        self.gate = nn.Parameter(torch.ones(D).double())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.core(State(self.read(x) * self.gate)))


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_the_gradient_of_a_parameter_goes_through_an_object(memory: str) -> None:
    model, batch = Gated(), make_xy()
    found = Featurizer(model, loss, loop=Loop(["core", "gate"], "core"), memory=memory, audit="off")(batch)
    for i, value in enumerate(loss(model, batch)):
        (g,) = torch.autograd.grad(value, model.gate, retain_graph=True)
        np.testing.assert_allclose(found.g[i, found.block("gate")], g.numpy(), rtol=1e-10)


class Borrowing(nn.Module):
    """Uses a value of the graph that it is not given."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)

    def forward(self, h: Tensor, more: Any) -> Tensor:
        return torch.tanh(self.lin(h)) + more()


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_value_that_a_closure_brings_into_a_second_run_keeps_its_gradient(memory: str) -> None:
    model, batch = Model("plain"), make_xy()
    model.core = Borrowing().double()

    def forward(x: Tensor) -> Tensor:
        h = model.read(x)
        for t in range(TAU):
            h = model.call(t, h, h.square)
        return model.head(h)

    model.forward = forward  # type: ignore[method-assign]
    phi = truth(model, [example(batch, i) for i in range(3)], loss)
    assert_near(Featurizer(model, loss, loop=LOOP, memory=memory)(batch).values, phi, row_norms(phi), memory)


class Graphs:
    """A batch of graphs as PyTorch Geometric has them: nodes of all graphs, edges between them, whose a node is."""

    def __init__(self, x: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int) -> None:
        self.x, self.edge_index, self.batch, self.num_graphs = x, edge_index, batch, num_graphs

    def to_data_list(self) -> list[Graph]:
        out = []
        for i in range(self.num_graphs):
            own = (self.batch == i).nonzero().flatten()
            edges = self.edge_index[:, (self.batch[self.edge_index[0]] == i)]
            out.append(Graph(self.x[own], edges - own[0]))
        return out

    @classmethod
    def from_data_list(cls, graphs: Sequence[Graph]) -> Graphs:
        sizes = [len(g.x) for g in graphs]
        starts = np.cumsum([0, *sizes])
        edges = torch.cat([g.edge_index + int(s) for g, s in zip(graphs, starts, strict=False)], dim=1)
        batch = torch.repeat_interleave(torch.arange(len(graphs)), torch.tensor(sizes))
        return cls(torch.cat([g.x for g in graphs]), edges, batch, len(graphs))


@dataclass
class Graph:
    x: Tensor
    edge_index: Tensor


class Message(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own, self.sent = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, h: Tensor, graphs: Graphs) -> Tensor:
        source, target = graphs.edge_index
        return torch.tanh(self.own(h).index_add(0, target, self.sent(h[source])))


class GraphModel(Model):
    def __init__(self) -> None:
        super().__init__("plain")
        self.core = Message().double()

    def forward(self, graphs: Any) -> Tensor:  # type: ignore[override]
        h = self.read(graphs.x)
        for t in range(TAU):
            h = self.call(t, h, graphs)
        return self.head(torch.zeros(graphs.num_graphs, D, dtype=h.dtype).index_add(0, graphs.batch, h))


def graph_loss(model: nn.Module, batch: Any) -> Tensor:
    return model(batch).square().mean(dim=1)


def graphs_of(*sizes: int) -> Graphs:
    generator = torch.Generator().manual_seed(sum(sizes))
    rings = [torch.stack([torch.arange(k), (torch.arange(k) + 1) % k]) for k in sizes]
    return Graphs.from_data_list(
        [
            Graph(torch.randn(k, 4, dtype=torch.float64, generator=generator), ring)
            for k, ring in zip(sizes, rings, strict=True)
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_batch_of_graphs_has_one_example_for_each_graph(memory: str) -> None:
    model = GraphModel()
    run = Featurizer(model, graph_loss, loop=LOOP, memory=memory)
    for sizes in ((3, 5, 4), (2, 2, 2), (4, 3)):
        batch = graphs_of(*sizes)
        phi = truth(model, [take_examples(batch, [i], len(sizes)) for i in range(len(sizes))], graph_loss)
        assert_near(run(batch).values, phi, row_norms(phi), f"{sizes}")


@pytest.mark.slow
def test_graphs_are_attributed(tmp_path: Path) -> None:
    model, batch = GraphModel(), graphs_of(3, 5, 4)
    lm.save_checkpoint(tmp_path / "a.safetensors", model, 0.5)
    result = sdi.attribute(
        model, loss=graph_loss, loop=LOOP, checkpoints=tmp_path / "a.safetensors", m=None, spread=False,
        train=[batch], query=[{"id": ["a", "b"], "graphs": graphs_of(2, 3)}["graphs"]],
    )  # fmt: skip
    assert result.tracin.shape == (3, 2)
    assert set(result.labels["train"]) == set(digests(batch, 3))
    features = Featurizer(model, graph_loss, loop=LOOP)
    g, q = features(batch, digests(batch, 3)).g, features(graphs_of(2, 3)).g
    wanted = 0.5 * g @ q.T
    order = [digests(batch, 3).index(i) for i in result.labels["train"]]
    queries = [digests(graphs_of(2, 3), 2).index(i) for i in result.labels["query"]]
    np.testing.assert_allclose(result.tracin.values, wanted[order][:, queries], rtol=1e-5)


def test_a_graph_is_told_by_its_content() -> None:
    batch = graphs_of(3, 5, 4)
    assert count_examples(batch) == 3
    some = take_examples(batch, [2, 0], 3)
    assert digests(some, 2) == (digests(batch, 3)[2], digests(batch, 3)[0])
    batch.x[0, 0] += 1
    assert digests(some, 2)[1] != digests(batch, 3)[0]
    assert digests(some, 2)[0] == digests(batch, 3)[2]
    torch.testing.assert_close(one_example({"g": some}, 1, 2, "b")["g"].x, some.to_data_list()[1].x)
