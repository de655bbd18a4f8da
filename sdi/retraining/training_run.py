"""TrainingRun: all that a training run depends on, as data, so that it can be run again bit for bit, and otherwise.

Update k (from 0) takes batch k, the gradient of sum_i w_i loss_i / n over its n examples, clips it, and lets the
optimiser act at rate k. The weights w_i of examples are 1 in the run itself; a counterfactual has others. An example
that is left out still stands in its batches, with weight 0: nothing else changes, not even n.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

from sdi.arguments import number, one_of
from sdi.inputs.batches import Examples, count_examples, in_order, name_examples
from sdi.inputs.fingerprint import loop_names, loss_fingerprint, model_fingerprint
from sdi.inputs.unwrap import unwrapped_model
from sdi.loop import Loop, check_loop
from sdi.retraining.optimisers import Optimiser, check_optimiser, describe_optimiser

REDUCTIONS = ("mean", "sum")
PerUpdate = float | Sequence[float] | Callable[[int], float]


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A training run as data.

    model: a function that makes the model as training begins, the same at every call; or a model, whose weights are
        the first ones and which is left as it is. Its parameters with `requires_grad` are trained.
    loss: a function of the model and a batch that returns one value per example.
    loop: the body, and the module whose call begins a step.
    batches: one batch for each update, in order, with ids under "id" by which an example is the same in all of them.
    optimiser: `sdi.SGD`, `sdi.Adam` or `sdi.AdamW`.
    rate: the learning rate: a number, one for each update, or a function of the update's number from 0.
    clip: the largest norm of a gradient, as `torch.nn.utils.clip_grad_norm_`; None does not clip.
    average: memory of the averaged weights, avg <- memory avg + (1 - memory) weights after every update: a number, one
        for each update, or a function; then queries see the average. None: they see the last weights.
    seed: of the random numbers that model and loss draw in training; None: they draw none, or it is an error.
    reduction: "mean" divides the sum of a batch's losses by the number of its examples, "sum" does not.
    """

    model: Any
    loss: Callable[[Any, Any], Any]
    loop: Loop
    batches: Sequence[Any]
    optimiser: Optimiser
    rate: PerUpdate
    clip: float | None = None
    average: PerUpdate | None = None
    seed: int | None = None
    reduction: str = "mean"

    def __post_init__(self) -> None:
        if not callable(self.model):
            raise TypeError(f"model must be a function that makes the model, or a model, got {self.model!r}")
        if not callable(self.loss):
            raise TypeError(f"loss must be a function of the model and a batch, got {self.loss!r}")
        check_loop(self.loop)
        check_optimiser(self.optimiser)
        one_of("reduction", self.reduction, REDUCTIONS)
        if self.clip is not None:
            number("clip", self.clip, "a number above 0, or None", lambda x: x > 0)
        if not hasattr(self.batches, "__len__") or not hasattr(self.batches, "__getitem__"):
            raise TypeError(
                f"batches must be a list with one batch for each update, got {type(self.batches).__name__}; it is read "
                "many times: write list(...)"
            )
        if not len(self.batches):
            raise ValueError("batches must hold at least one batch, got none")
        if hasattr(self.batches, "keys"):
            raise ValueError("batches must be a list with one batch for each update, got a single batch: write [batch]")
        for check in ("rates", "memories", "ids"):
            getattr(self, check)

    @property
    def updates(self) -> int:
        """How many updates training makes."""
        return len(self.batches)

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """The learning rate of every update."""
        return _per_update("rate", self.rate, self.updates, "a number of at least 0", lambda x: 0 <= x < float("inf"))

    @cached_property
    def memories(self) -> tuple[float, ...] | None:
        """The memory of the averaged weights at every update, or None."""
        if self.average is None:
            return None
        return _per_update("average", self.average, self.updates, "a number from 0 to 1", lambda x: 0 <= x <= 1)

    def make_model(self) -> Any:
        """The model as training begins; a copy, if a model was given."""
        if hasattr(self.model, "named_parameters"):
            from copy import deepcopy

            return deepcopy(unwrapped_model(self.model))
        return unwrapped_model(self.model())

    def batch(self, k: int) -> Examples:
        """Batch k with the ids of its examples."""
        return name_examples(self.batches[k])

    @cached_property
    def _read(self) -> tuple[tuple[str, ...], list[Int[np.ndarray, "n"]], str]:
        places: dict[str, int] = {}
        contents: dict[str, str] = {}
        rows, digest = [], hashlib.sha256()
        known: dict[int, Examples] = {}  # the same batch object may serve many updates
        for k in range(self.updates):
            raw = self.batches[k]
            examples = known.get(id(raw)) or name_examples(raw)
            if isinstance(self.batches, (list, tuple)):
                known[id(raw)] = examples
            if not count_examples(examples.batch):
                raise ValueError(f"batch {k} holds no examples; leave it out")
            for i, content in zip(examples.ids, examples.contents, strict=True):
                if contents.setdefault(i, content) != content:
                    raise ValueError(
                        f"batches hold example {i!r} with other content in batch {k} than before; give each example an "
                        "id of its own, and the same rows (padding, too) in every batch"
                    )
            rows.append(np.array([places.setdefault(i, len(places)) for i in examples.ids]))
            digest.update("".join(examples.contents).encode() + b"|")
        met, ids = list(places), in_order(tuple(places))
        where = {i: k for k, i in enumerate(ids)}
        moved = np.array([where[i] for i in met])
        return ids, [moved[r] for r in rows], digest.hexdigest()

    @property
    def ids(self) -> tuple[str, ...]:
        """All training examples that some batch holds, in natural order."""
        return self._read[0]

    def rows(self, k: int) -> Int[np.ndarray, "n"]:
        """For each example of batch k, its place in `ids`."""
        return self._read[1][k]

    def share(self, k: int) -> float:
        """What an example's loss is multiplied with in update k, besides its weight."""
        return 1 / len(self.rows(k)) if self.reduction == "mean" else 1.0

    def first(self, window: int | None) -> int:
        """The first update of a window of the last `window` updates; None is all of training."""
        if window is None:
            return 0
        if isinstance(window, bool) or not hasattr(window, "__index__") or not 1 <= window <= self.updates:
            raise ValueError(f"window must be a number of updates from 1 to {self.updates}, or None, got {window!r}")
        return self.updates - int(window)

    @cached_property
    def description(self) -> dict[str, Any]:
        """What the weights depend on besides the first weights and the code of the model's forward, as plain values."""
        model = self.make_model()
        return {
            "model": model_fingerprint(model),
            "loss": loss_fingerprint(self.loss),
            "loop": loop_names(model, self.loop),
            "batches": self._read[2],
            **describe_optimiser(self.optimiser),
            "rates": hashlib.sha256(json.dumps(self.rates).encode()).hexdigest(),
            "memories": hashlib.sha256(json.dumps(self.memories).encode()).hexdigest(),
            "clip": self.clip,
            "seed": self.seed,
            "reduction": self.reduction,
            "updates": self.updates,
        }


def check_run(run: Any) -> None:
    """TypeError for anything that is no TrainingRun.

    >>> check_run(3)
    Traceback (most recent call last):
    TypeError: run must be an sdi.TrainingRun, got 3
    """
    if not isinstance(run, TrainingRun):
        raise TypeError(f"run must be an sdi.TrainingRun, got {run!r}")


def _per_update(name: str, value: Any, updates: int, rule: str, good: Callable[[float], bool]) -> tuple[float, ...]:
    if callable(value):
        values = [value(k) for k in range(updates)]
    elif hasattr(value, "__len__") and not isinstance(value, str):
        if len(value) != updates:
            raise ValueError(f"{name} must have one number for each of the {updates} updates, got {len(value)}")
        values = list(value)
    else:
        values = [value] * updates
    return tuple(number(name, v, rule, good) for v in values)
