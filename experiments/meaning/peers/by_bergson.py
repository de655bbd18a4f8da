"""bergson 2.5.1: gradients by its collectors, and derivatives through training by its Trainer (MAGIC).

Its pipelines (build, trackstar, ekfac, trak, magic) read a Hugging Face model and dataset by name; what takes a plain
nn.Module are the collectors and the Trainer. A collector keeps one input for each module, and fails where a module is
called again; so it is also given an unrolled model, in which each loop step has modules of its own, with equal weights,
whose gradients are then added up. It knows linear maps only: no embeddings, norms, biases that are not asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from .run_on_disk import PARTS, Example, RunOnDisk, logits_of, mean_over_tokens

AT_ONCE = 16
# Under Adam's root, at least: the derivative of a root of 0 is infinite, and where a parameter has no gradient the
# Trainer's products are then not a number, which it takes for no influence at all: all scores are 0.
LEAST_ROOT = 1e-30
MOMENTS = ("mu", "nu")  # as torchopt calls Adam's


def losses(model: Any, data: Example) -> Tensor:
    return mean_over_tokens(logits_of(model, data), data)


def unrolled(model: Any) -> Any:
    """The same function, in which each loop step calls copies of its own of what the loop calls."""
    made = deepcopy(model)
    parts = ("inject", "core", "loop_norm")
    steps = nn.ModuleList(
        nn.ModuleDict({p: deepcopy(getattr(model, p)) for p in parts}) for _ in range(model.config.tau)
    )
    made.steps = steps
    for part in parts:
        setattr(made, part, _Turns(steps, part))
    return made


class _Turns(nn.Module):
    """One module after the other, call by call."""

    def __init__(self, steps: Any, part: str) -> None:
        super().__init__()
        self.modules_of_steps = [step[part] for step in steps]  # a plain list: their names are those in `steps`
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        module = self.modules_of_steps[self.calls % len(self.modules_of_steps)]
        self.calls += 1
        made: Tensor = module(x)
        return made


def tied(name: str) -> str:
    """The name that a module of an unrolled model has in the looped one."""
    return name.split(".", 2)[2] if name.startswith("steps.") else name


def collected(model: Any, data: Example, only: set[str] | None) -> Tensor:
    """The gradients of examples by bergson's collector, (n, numbers); those of equal weights are added up."""
    collectors = importlib.import_module("bergson.collector.gradient_collectors")
    processor = importlib.import_module("bergson").GradientProcessor(include_bias=True)
    rows = []
    for i in range(0, len(data[0]), AT_ONCE):
        some = cast(Example, tuple(x[i : i + AT_ONCE] for x in data))
        collector = collectors.StreamingGradientCollector(
            model=model, target_modules=only, dtype=torch.float64, processor=processor
        )
        with collector.with_batch(None):
            torch.autograd.backward(losses(model, some).sum())
        of: dict[str, Tensor] = {}
        for name, g in collector.mod_grads.items():
            of[tied(name)] = of.get(tied(name), torch.zeros_like(g)) + g
        rows.append(torch.cat([of[name] for name in sorted(of)], dim=1).double())
    return torch.cat(rows)


def products(run: RunOnDisk, unroll: bool, only: set[str] | None = None, normalised: bool = False) -> Tensor:
    """Inner products of gradients at checkpoints, with their learning rates; normalised: at the end, of length 1."""
    total = torch.zeros(len(run.train[0]), len(run.queries), dtype=torch.float64)
    for mark in run.marks[-1:] if normalised else run.marks:
        model = unrolled(run.model(mark)) if unroll else run.model(mark)
        g = collected(model, run.train, only)
        asked = torch.stack([collected(model, query, only).mean(dim=0) for query in run.queries])
        if normalised:
            g, asked = (x / x.norm(dim=1, keepdim=True).clamp(min=1e-300) for x in (g, asked))
        total += run.rates[mark - 1] * (g @ asked.T)
    return total


class Weighted(nn.Module):
    """A model whose output is the loss of a batch, with a weight for each example: what bergson's Trainer steps."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.inner = model

    def forward(self, *, shift_loss_mask: Tensor, example_weight: Tensor, **rest: Tensor) -> Tensor:
        data = (rest["tokens"], rest["targets"], shift_loss_mask, rest["readout"])
        return (losses(self.inner, data) * example_weight).mean()


def keywords(data: Example, weights: Tensor) -> dict[str, Tensor]:
    """A batch as the Trainer wants it: its mask has a name of its own."""
    named = dict(zip(PARTS, data, strict=True))
    return {"shift_loss_mask": named.pop("mask"), "example_weight": weights, **named}


def magic(run: RunOnDisk) -> Tensor:
    """The derivative through the window's updates, by bergson's Trainer and its products, with torchopt's Adam.

    Training through the window is carried out again, from the weights and moments before it, and must arrive at ours.
    """
    trainers, torchopt = importlib.import_module("bergson.magic.trainer"), importlib.import_module("torchopt")
    torch.set_default_dtype(torch.float64)  # torchopt's bias correction is of the default type
    o = run.optimiser
    optimiser = torchopt.adam(
        lambda count: run.rates[int(count)],
        betas=tuple(o["betas"]),
        eps=o["eps"],
        eps_root=max(o["eps_root"], LEAST_ROOT),
    )
    trainer, state = trainers.Trainer.initialize(Weighted(run.model(run.first)), optimiser)
    state.opt_state = before_window(state.opt_state, run, sorted(state.params))
    state.detach_()
    n, updates, states = len(run.train[0]), len(run.rates), []
    weights = torch.ones(n, dtype=torch.float64, requires_grad=True)

    def inputs(k: int) -> dict[str, Tensor]:
        rows = torch.tensor(run.batches[k])
        tokens, targets, mask, readout = (x[rows] for x in run.train)
        return keywords((tokens, targets, mask, readout), weights[rows])

    for k in range(run.first, updates):
        states.append(state.to("cpu"))
        state = trainer.step(state, inputs(k))
        state.detach_()
    ours = run.weights(updates)
    off = max(float((x - ours[name.removeprefix("inner.")]).abs().max()) for name, x in state.params.items())
    if off > 1e-6:
        raise ValueError(f"training by bergson's Trainer arrives at other weights: they are off by {off:.2g}")
    found = []
    for query in run.queries:
        found.append(_pulled_back(trainer, trainers.BackwardState, state, states, weights, query, inputs, run.first))
    return -torch.stack(found, dim=1)  # positive where an example lowers the loss


def before_window(part: Any, run: RunOnDisk, names: list[str]) -> Any:
    """torchopt's state of Adam with the moments and counts that there are before the window's first update.

    names: of the parameters, in the order in which torchopt lists their leaves.
    """
    if not hasattr(part, "_fields"):
        return type(part)(before_window(x, run, names) for x in part) if type(part) in (tuple, list) else part
    new = {}
    for field in part._fields:
        old = getattr(part, field)
        if field in MOMENTS:
            moments = run.moments(MOMENTS.index(field))
            of = {name: moments[name.removeprefix("inner.")] for name in names}
            new[field] = {name: of[name] for name in old} if isinstance(old, dict) else type(old)(of.values())
        elif field == "count":
            counts = (torch.full_like(x, run.first) for x in (old.values() if isinstance(old, dict) else old))
            new[field] = dict(zip(old, counts, strict=True)) if isinstance(old, dict) else type(old)(counts)
        else:
            new[field] = before_window(old, run, names)
    return part._replace(**new)


def _pulled_back(
    trainer: Any, make: Any, last: Any, states: list[Any], weights: Tensor, query: Example, inputs: Any, first: int
) -> Tensor:
    last.requires_grad = True
    ones = torch.ones(len(query[0]), dtype=torch.float64)
    with last.activate(trainer.model) as parameters:
        loss = trainer.model(**keywords(query, ones))
        pushed = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    moments = last.differentiable_tensors()[len(last.params) :]
    back = make(pushed, [torch.zeros_like(x) for x in moments], torch.zeros_like(weights))
    for k in reversed(range(len(states))):
        states[k].requires_grad = True
        back = trainer.metagrad_step(states[k], inputs(first + k), back, weights)
    found: Tensor = back.weight_grads.detach()
    return found


WAYS: dict[str, Callable[[RunOnDisk], Tensor]] = {
    "bergson gradients": lambda run: products(run, unroll=False),
    "bergson gradients, head only": lambda run: products(run, unroll=False, only={"head"}),
    "bergson gradients, unrolled": lambda run: products(run, unroll=True),
    "bergson cosine, unrolled": lambda run: products(run, unroll=True, normalised=True),
    "bergson MAGIC": magic,
}


def scores(name: str, run: RunOnDisk) -> Tensor:
    """The scores (train, query) of one way."""
    with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be differentiated twice
        return WAYS[name](run)
