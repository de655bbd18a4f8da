"""dattri 0.3.0, on the model as it is: its attributors take gradients by torch.func, of any model and loss.

A query is the mean loss of a batch: given as one example whose target is that mean. Where a method has no default that
works, its setting stands here: DAMPING times the mean diagonal of the Fisher matrix is added to a Hessian or Fisher
matrix, and TRAK's projection is half as wide as there are examples, because its kernel has to be inverted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from .run_on_disk import Example, RunOnDisk, logits_of, mean_over_tokens

DAMPING = 0.1
AT_ONCE = 16  # examples whose gradients are made at a time
WHOLE = {"proj_type": "identity"}


class Data(torch.utils.data.Dataset[Example]):
    """Examples one by one."""

    def __init__(self, examples: list[Example]) -> None:
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, i: int) -> Example:
        return self.examples[i]


class Asked:
    """A run as dattri is asked about it."""

    def __init__(self, run: RunOnDisk) -> None:
        self.run, self.model = run, run.model(run.marks[-1])
        self.train = list(zip(*run.train, strict=True))
        self.queries = run.queries

    def loader(self, examples: Any, at_once: int) -> Any:
        return torch.utils.data.DataLoader(Data(list(examples)), batch_size=at_once)

    def losses(self, parameters: Any, data: Any) -> Tensor:
        """The mean loss of each of some examples."""
        tokens, targets, mask, readout = (x.reshape(-1, x.shape[-1]) for x in data)
        some = (tokens, targets, mask, readout)
        return mean_over_tokens(logits_of(lambda batch: functional_call(self.model, parameters, (batch,)), some), some)

    def loss(self, parameters: Any, data: Any) -> Tensor:
        return self.losses(parameters, data).mean()

    def odds(self, parameters: Any, data: Any) -> Tensor:
        """The logarithm of the odds of a right answer, whose probability is exp(-loss): what TRAK attributes."""
        loss = self.losses(parameters, data)
        return (-loss - torch.log(-torch.expm1(-loss))).mean()

    def task(self, loss: Callable[..., Tensor], marks: list[int]) -> Any:
        return importlib.import_module("dattri.task").AttributionTask(
            loss_func=loss, model=self.model, checkpoints=[self.run.weights(mark) for mark in marks]
        )

    def level(self) -> float:
        """DAMPING times the mean diagonal of the Fisher matrix at the end."""
        parameters = {name: p.detach() for name, p in self.model.named_parameters()}
        squares, count = 0.0, sum(p.numel() for p in parameters.values())
        for i in range(0, len(self.train), AT_ONCE):
            data = tuple(x[i : i + AT_ONCE] for x in self.run.train)
            found = vmap(grad(self.loss), in_dims=(None, 0))(parameters, data)
            squares += sum(float(g.square().sum()) for g in found.values())
        return DAMPING * squares / (len(self.train) * count)


def tracin(run: RunOnDisk, normalised: bool = False) -> Tensor:
    """TracIn over the checkpoints, with their learning rates; normalised: of gradients of length 1."""
    asked, marks = Asked(run), run.marks
    attributor = _algorithm("TracInAttributor")(
        task=asked.task(asked.loss, marks),
        weight_list=torch.tensor([run.rates[mark - 1] for mark in marks]),
        normalized_grad=normalised,
        projector_kwargs=WHOLE,
    )
    found: Tensor = attributor.attribute(asked.loader(asked.train, AT_ONCE), asked.loader(asked.queries, 1))
    return found


def trak(run: RunOnDisk) -> Tensor:
    """TRAK at the end of training."""
    asked = Asked(run)

    def right(parameters: Any, data: Any) -> Tensor:
        return torch.exp(-asked.loss(parameters, data))

    attributor = _algorithm("TRAKAttributor")(
        task=asked.task(asked.odds, run.marks[-1:]),
        correct_probability_func=right,
        projector_kwargs={"proj_dim": max(2, len(asked.train) // 2)},
    )
    attributor.cache(asked.loader(asked.train, AT_ONCE))
    found: Tensor = attributor.attribute(asked.loader(asked.queries, 1))
    return found


def influence(run: RunOnDisk, name: str, options: Callable[[float], dict[str, Any]]) -> Tensor:
    """An influence function at the end of training. options: of the attributor, given the level of damping."""
    asked = Asked(run)
    attributor = _algorithm(name)(task=asked.task(asked.loss, run.marks[-1:]), **options(asked.level()))
    every = asked.loader(asked.train, len(asked.train))
    attributor.cache(every)
    found: Tensor = attributor.attribute(every, asked.loader(asked.queries, 1))
    return found


def _algorithm(name: str) -> Any:
    torch.set_default_dtype(torch.float64)  # its answer is of the default type
    return getattr(importlib.import_module("dattri.algorithm"), name)


WAYS: dict[str, Callable[[RunOnDisk], Tensor]] = {
    "dattri TracIn": tracin,
    "dattri TracIn, normalised": lambda run: tracin(run, True),
    "dattri TRAK": trak,
    "dattri influence, CG": lambda run: influence(run, "IFAttributorCG", lambda level: {"regularization": level}),
    "dattri influence, Arnoldi": lambda run: influence(
        run, "IFAttributorArnoldi", lambda level: {"regularization": level}
    ),
    "dattri influence, DataInf": lambda run: influence(
        run, "IFAttributorDataInf", lambda level: {"regularization": level}
    ),
    "dattri influence, EK-FAC": lambda run: influence(run, "IFAttributorEKFAC", lambda level: {"damping": level}),
}


def scores(name: str, run: RunOnDisk) -> Tensor:
    """The scores (train, query) of one way."""
    # The only attention that can be differentiated twice; and PyTorch's one_hot cannot be mapped over examples.
    with sdpa_kernel(SDPBackend.MATH), patch.object(F, "one_hot", _one_hot):
        return WAYS[name](run)


def _one_hot(tokens: Tensor, classes: int) -> Tensor:
    return (tokens[..., None] == torch.arange(classes)).long()
