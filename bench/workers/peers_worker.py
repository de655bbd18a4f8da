"""The scores of all pairs of a batch, one peer alone in a process: `python -m sdi.bench.workers.peers_worker`.

    hooks       ours: sketched features, step-resolved, then SDI and TracIn
    summed      ours: sketched features, summed over steps, then TracIn
    exact       ours, without a sketch: SDI and TracIn by the exact route
    dattri      TracInAttributor of dattri, on the parameters of the loop, without a projection: exact TracIn
    torch.func  the plain way: the gradient of one example after another by torch.func, held, then all products

For the last two, the model is the plain PyTorch twin that the authors' release gets, with our weights. Neither can
resolve steps.
"""

from __future__ import annotations

import importlib
import os
import resource
from time import perf_counter
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import Tensor
from torch.func import functional_call, grad

from sdi.backends import room

from ..harness.machine import THREADS
from ..work.cases import Case
from ..work.contenders import OURS, contender
from .authors_worker import Twin, token_losses
from .serve import serve

Scores = dict[str, np.ndarray]
GRADIENT_BYTES = 256 << 20  # that dattri makes at a time: for twice that, of 135.1M parameters, it took 14 GB
MEMORY_SHARE = 0.6  # of the machine's, for a peer: one that wants more fails, and not its neighbours


class Worker:
    def open(self, case: dict[str, Any], peer: str) -> dict[str, Any]:
        torch.set_num_threads(THREADS)
        work = Case.from_dict(case)
        ours, self.batch, self.loop = work.model(), work.batch(), work.config.loop()
        self.body = self.loop.select(work.config.shapes())
        peers = {"exact": self.exact, "dattri": self.dattri, "torch.func": self.one_by_one}
        if peer in OURS:
            self.featurize = contender(peer, ours, work.config, work.sketch())
            self.scores = self.sketched
        else:
            self.scores = peers[peer]
        self.ours = ours
        if peer in ("dattri", "torch.func"):
            self.model = Twin(work.config.to_dict())
            self.model.load_state_dict(ours.state_dict(), assign=True)
        return {}

    def score(self, save: str = "") -> dict[str, Any]:
        began = perf_counter()
        scores = self.scores()
        seconds = perf_counter() - began
        if save:
            save_file({name: np.ascontiguousarray(x) for name, x in scores.items()}, save)
        return {"seconds": seconds}

    def sketched(self) -> Scores:
        fast: Any = room("fast")
        features: Any = self.featurize(self.batch)
        steps = {"sdi": fast.sdi(features, features)} if features.values.ndim == 3 else {}
        return {"tracin": fast.tracin(features, features), **steps}

    def exact(self) -> Scores:
        fast = room("fast")
        found = fast.exact_scores(
            self.ours, fast.token_cross_entropy, [self.batch], [self.batch], loop=self.loop, audit="off"
        )
        return {"tracin": found.tracin, "sdi": found.sdi}

    def dattri(self) -> Scores:
        algorithm, task = importlib.import_module("dattri.algorithm"), importlib.import_module("dattri.task")

        def loss(parameters: Any, data: tuple[Tensor, Tensor]) -> Tensor:
            tokens, targets = data
            logits = functional_call(self.model, parameters, (tokens[None],))
            return torch.nn.functional.cross_entropy(logits[0], targets)

        pairs = torch.utils.data.TensorDataset(self.batch["tokens"], self.batch["targets"])
        size = sum(p.numel() for name, p in self.model.named_parameters() if name in set(self.body))
        at_once = max(1, min(len(pairs), GRADIENT_BYTES // (4 * size)))
        loader = torch.utils.data.DataLoader(pairs, batch_size=at_once)
        attributor = algorithm.TracInAttributor(
            task=task.AttributionTask(loss_func=loss, model=self.model, checkpoints=[self.model.state_dict()]),
            weight_list=torch.ones(1),
            normalized_grad=False,
            projector_kwargs={"proj_type": "identity"},
            layer_name=list(self.body),
        )
        return {"tracin": attributor.attribute(loader, loader).numpy()}

    def one_by_one(self) -> Scores:
        parameters = dict(self.model.named_parameters())
        body = {name: parameters[name].detach() for name in self.body}
        rest = {name: p.detach() for name, p in parameters.items() if name not in body}

        def loss(body: dict[str, Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
            batch = {"tokens": tokens[None], "targets": targets[None]}
            return token_losses(_Called(self.model, {**body, **rest}), batch)[0]  # type: ignore[arg-type]

        gradients = []
        for tokens, targets in zip(self.batch["tokens"], self.batch["targets"], strict=True):
            one = grad(loss)(body, tokens, targets)
            gradients.append(torch.cat([one[name].flatten() for name in self.body]))
        G = torch.stack(gradients)
        return {"tracin": room("fast").tracin(G.numpy(), G.numpy())}  # G @ G.T loses per cents over millions of columns


class _Called:
    """A model with given parameters, as a function of tokens."""

    def __init__(self, model: torch.nn.Module, parameters: dict[str, Tensor]) -> None:
        self.model, self.parameters = model, parameters

    def __call__(self, tokens: Tensor) -> Tensor:
        logits: Tensor = functional_call(self.model, self.parameters, (tokens,))
        return logits


def limit_memory() -> None:
    most = int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


if __name__ == "__main__":
    limit_memory()
    serve(Worker())
