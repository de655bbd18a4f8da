"""Effects: what counterfactual training runs did to queries, whole and step by step. Pure arrays, saved as one file.

Slot 0 is what lies outside the loop (parameters outside the body among it), slot t is loop step t.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sdi.files import expand, write_whole

ARRAYS = ("weights", "base", "whole", "by_slot", "first_order")


@dataclass(frozen=True, eq=False)
class Effects:
    """What R counterfactual runs changed in the losses of q queries; positive: the loss rose."""

    train_ids: tuple[str, ...]  # of n training examples
    query_ids: tuple[str, ...]  # of q queries
    weights: Float[np.ndarray, "R n"]  # of each training example in each run; 1 is as in the run itself
    base: Float[np.ndarray, "q"]  # the loss of each query after the run itself
    whole: Float[np.ndarray, "R q"]  # with the retrained weights everywhere
    by_slot: Float[np.ndarray, "R q slots"]  # with the retrained weights in one slot only: the step-swap effect
    first_order: Float[np.ndarray, "R q slots"]  # <phi[t], retrained weights - weights>
    info: Mapping[str, Any] = field(default_factory=dict)  # plain values: window, figures of the run

    def __post_init__(self) -> None:
        runs, q = len(self.weights), len(self.query_ids)
        wanted = {"weights": (runs, len(self.train_ids)), "base": (q,), "whole": (runs, q)}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")
        for name in ("by_slot", "first_order"):
            got = getattr(self, name).shape
            if len(got) != 3 or got[:2] != (runs, q) or got != self.by_slot.shape:
                raise ValueError(f"{name} must have axes (runs, queries, slots) = {self.by_slot.shape}, got {got}")

    @property
    def runs(self) -> int:
        """How many counterfactual runs there are."""
        return len(self.weights)

    @property
    def steps(self) -> Float[np.ndarray, "R q tau"]:
        """The step-swap effects of the loop steps."""
        return self.by_slot[:, :, 1:]

    def only(self, rows: Any) -> Effects:
        """These effects for some of the runs. rows: their places."""
        cut = {name: getattr(self, name)[rows] for name in ("weights", "whole", "by_slot", "first_order")}
        return Effects(self.train_ids, self.query_ids, base=self.base, info=self.info, **cut)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, which `Effects.load` reads. path: the file."""
        words = {"train": list(self.train_ids), "query": list(self.query_ids), "info": dict(self.info)}
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ARRAYS}
        write_whole(expand(path), save(arrays, metadata={"effects": json.dumps(words)}))

    @classmethod
    def load(cls, path: str | Path) -> Effects:
        """Read what `save` wrote. path: the file."""
        path = expand(path)
        try:
            with safe_open(path, framework="np") as file:
                words = json.loads((file.metadata() or {})["effects"])
                arrays = {name: file.get_tensor(name) for name in ARRAYS}
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise ValueError(f"{path} is not a file of effects: {error}") from None
        return cls(tuple(words["train"]), tuple(words["query"]), info=words["info"], **arrays)
