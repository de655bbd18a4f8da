"""The oracle: step gradients by definition, one example at a time. It shares no code with the library.

Every step of the loop gets copies of the body's parameters of its own; the example runs alone, in a model of its own;
autograd's gradient of its loss by the copy of step t is phi[t]. None is the slot outside of all steps.
"""

from typing import Any

import numpy as np
import torch


def body_parameters(model: Any, body: list[str]) -> dict[str, Any]:
    """The parameters under these names, without frozen ones, unless these are named themselves, or all are frozen."""
    every = dict(model.named_parameters(remove_duplicate=False))
    inside = {id(p): p for name, p in every.items() for b in body if name == b or name.startswith(b + ".")}
    kept = {k for k, p in inside.items() if p.requires_grad} or set(inside)
    kept |= {id(every[name]) for name in body if name in every}
    return {name: p for name, p in model.named_parameters() if id(p) in kept}


class Copies:
    """Fresh copies of a model's body for each step, put in place when the model says that the step begins."""

    def __init__(self, model: Any, body: list[str]) -> None:
        self.parameters = body_parameters(model, body)
        self.steps: dict[Any, dict[str, Any]] = {}
        names = {id(p): name for name, p in self.parameters.items()}
        self.places = [
            (module, local, names[id(p)])
            for module in model.modules()
            for local, p in module._parameters.items()
            if id(p) in names
        ]

    def at(self, t: Any) -> None:
        if t not in self.steps:
            self.steps[t] = {name: p.detach().clone().requires_grad_() for name, p in self.parameters.items()}
        for module, local, name in self.places:
            module._parameters[local] = self.steps[t][name]
            if hasattr(module, "_flat_weights"):  # torch's recurrent layers keep a list of their own
                module._flat_weights = [module._parameters[key] for key in module._flat_weights_names]


def examples(batch: Any, shared: list[str]) -> list[Any]:
    """A batch of one for each example of a batch."""
    return [{k: v if k in shared else v[i : i + 1] for k, v in batch.items()} for i in range(len(batch["x"]))]


def step_gradients(model: Any, loss: Any, body: list[str], example: Any) -> tuple[Any, Any]:
    """phi (steps, numbers), and the same outside of all steps (numbers,), of a batch of one. The model is used up."""
    copies = Copies(model, body)
    model.at = copies.at
    (value,) = loss(model, example)
    flat = [w for weights in copies.steps.values() for w in weights.values()]
    grads = torch.autograd.grad(value, flat, allow_unused=True) if value.requires_grad else [None] * len(flat)
    parts = iter([torch.zeros_like(w) if g is None else g for w, g in zip(flat, grads, strict=True)])
    rows = {t: np.concatenate([next(parts).double().flatten().numpy() for _ in w]) for t, w in copies.steps.items()}
    outside = rows.pop(None)
    return np.stack([rows[t] for t in sorted(rows)]), outside


def scores(train: Any, query: Any, eta: list[float], mode: str) -> tuple[Any, Any, Any]:
    """sdi of the mode, tracin, and the size of what was summed for each pair, over checkpoints.

    train, query: for each checkpoint, the (phi, outside) of every example.
    """
    steps = [max(len(phi) for rows in side for phi, _ in rows) for side in (train, query)]
    sdi: Any = 0.0
    tracin: Any = 0.0
    size: Any = 0.0
    for weight, of_train, of_query in zip(eta, train, query, strict=True):
        a, a_outside = stacked(of_train, steps[0])
        b, b_outside = stacked(of_query, steps[1])
        g, f = a.sum(1) + a_outside, b.sum(1) + b_outside
        tracin = tracin + weight * g @ f.T
        size = size + weight * np.outer(norms(a, a_outside), norms(b, b_outside))
        if mode == "query":
            sdi = sdi + weight * np.einsum("nd,qtd->nqt", g, b)
        elif mode == "train":
            sdi = sdi + weight * np.einsum("nsd,qd->nqs", a, f)
        else:
            sdi = sdi + weight * np.einsum("nsd,qtd->nqst", a, b)
    return sdi, tracin, size


def stacked(rows: Any, steps: int) -> tuple[Any, Any]:
    phi = np.stack([np.pad(phi, ((0, steps - len(phi)), (0, 0))) for phi, _ in rows])
    return phi, np.stack([outside for _, outside in rows])


def norms(phi: Any, outside: Any) -> Any:
    return np.linalg.norm(phi, axis=2).sum(1) + np.linalg.norm(outside, axis=1)
