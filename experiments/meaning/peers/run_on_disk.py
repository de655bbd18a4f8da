"""RunOnDisk: what another library is told of a training run: model, checkpoints, examples, queries as plain tensors."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.retraining.retrain import carried_out
from sdi.retraining.training_run import TrainingRun

from ..settings import Settings
from ..tasks import Batch, task_of

PARTS = ("tokens", "targets", "mask", "readout")
Example = tuple[Tensor, Tensor, Tensor, Tensor]  # of one example (L,), (L,), (L,), (1,), or of several


@dataclass(frozen=True)
class RunOnDisk:
    """A run in float64. Examples are in the order of `run.ids`, and each once, whatever batches hold."""

    config: dict[str, Any]  # of the LoopedTransformer
    optimiser: dict[str, Any]
    rates: list[float]  # of every update
    batches: list[list[int]]  # of every update, places in `run.ids`
    first: int  # the first update of the window
    marks: list[int]  # checkpoints: so many updates were done
    tensors: dict[str, Tensor]

    @property
    def train(self) -> Example:
        """Of all n training examples."""
        return tuple(self.tensors[f"train.{part}"] for part in PARTS)  # type: ignore[return-value]

    @property
    def queries(self) -> list[Example]:
        """Of each query, a batch whose mean loss is meant."""
        count = sum(name.startswith("query.") for name in self.tensors) // len(PARTS)
        return [tuple(self.tensors[f"query.{j}.{p}"] for p in PARTS) for j in range(count)]  # type: ignore[misc]

    def weights(self, mark: int) -> dict[str, Tensor]:
        """The weights after so many updates, by parameter name."""
        return self._named(f"weights.{mark}.")

    def moments(self, k: int) -> dict[str, Tensor]:
        """The optimiser's moments number k before the window's first update, by parameter name."""
        return self._named(f"moments.{k}.")

    def _named(self, begins: str) -> dict[str, Tensor]:
        return {name.removeprefix(begins): x for name, x in self.tensors.items() if name.startswith(begins)}

    def model(self, mark: int) -> Any:
        """The model with these weights; all examples take all steps, and are read out at their own."""

        class Whole(room("fast").LoopedTransformer):  # type: ignore[misc]
            """LoopedTransformer without a look at numbers, which cannot be mapped over examples."""

            def loop(self, e: Tensor, tau: Tensor, readout: Tensor) -> Tensor:
                c = self.config
                s = e if c.state == "embedding" else torch.zeros_like(e)
                out = s
                for t in range(1, c.tau + 1):
                    x = torch.cat([e, s], dim=-1) if c.injection == "concat" else s + e if c.injection == "add" else s
                    s = self.loop_norm(self.core(self.inject(x)))
                    out = torch.where((readout == t)[:, None, None], s, out)
                return out

        return Whole(LoopedConfig(**self.config), self.weights(mark))

    def save(self, folder: Path) -> None:
        plain = {name: value for name, value in self.__dict__.items() if name != "tensors"}
        save_file({name: x.contiguous() for name, x in self.tensors.items()}, folder / "run.safetensors")
        (folder / "run.json").write_text(json.dumps(plain), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> RunOnDisk:
        plain = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return cls(**plain, tensors=load_file(folder / "run.safetensors"))


def on_disk(run: TrainingRun, settings: Settings, runs: Path) -> RunOnDisk:
    """The run with its checkpoints. runs: the folder that keeps it."""
    first, config = run.first(settings.window), task_of(settings).model_config(settings)
    replay: Any = carried_out(run, first, runs, lambda progress: None)
    ends = np.linspace(first, run.updates, settings.checkpoints + 1).round().astype(int)
    marks = np.unique(ends)[1:].tolist()  # as `sdi.along_training` has them
    tensors: dict[str, Tensor] = {}
    for mark in [0, first, *marks]:
        state = replay.last if mark == run.updates else _state(replay, mark)
        tensors |= _named(f"weights.{mark}", replay, state[0])
        if mark == first:
            for k in range(run.optimiser.moments):
                tensors |= _named(f"moments.{k}", replay, state[1 + k])
    every = _with_readout(task_of(settings).train(settings), config.tau)
    places = {i: k for k, i in enumerate(every["id"])}
    order = torch.tensor([places[i] for i in run.ids])
    tensors |= {f"train.{part}": every[part][order] for part in PARTS}
    for j, query in enumerate(task_of(settings).queries(settings)):
        asked = _with_readout(query, config.tau)
        tensors |= {f"query.{j}.{part}": asked[part] for part in PARTS}
    return RunOnDisk(
        config=config.to_dict(),
        optimiser=asdict(run.optimiser),
        rates=list(run.rates),
        batches=[run.rows(k).tolist() for k in range(run.updates)],
        first=first,
        marks=marks,
        tensors=tensors,
    )


def _named(begins: str, replay: Any, vector: Tensor) -> dict[str, Tensor]:
    return {f"{begins}.{name}": x.detach().clone() for name, x in replay.placed.named(vector).items()}


def _with_readout(batch: Batch, tau: int) -> Batch:
    """The batch with the step that each example is read out at, (n, 1)."""
    at = batch.get("readout", batch.get("tau", torch.full((len(batch["id"]),), tau)))
    return {**batch, "readout": torch.as_tensor(at)[:, None]}


def logits_of(model: Any, data: Example) -> Tensor:
    """(n, L, classes) of n examples."""
    made: Tensor = model({"tokens": data[0], "readout": data[3][:, 0]})
    return made


def mean_over_tokens(logits: Tensor, data: Example) -> Tensor:
    """The loss of each of n examples, as in training."""
    each = F.cross_entropy(logits.transpose(1, 2), data[1], reduction="none")
    return (each * data[2]).sum(dim=1) / data[2].sum(dim=1)


def _state(replay: Any, mark: int) -> Tensor:
    if mark < replay.first:  # only the first weights are wanted, and kept by no replay
        made: Any = room("fast.training").Stepper(replay.run)
        return made.placed.vector()[None]
    return replay.state_before(mark)
