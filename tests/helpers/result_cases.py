"""Results made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sdi import Result
from sdi.result.labelled import Labelled

N, Q, T = 5, 3, 4


TAU = np.array([4, 2, 3])


def make_result(mode: str = "query", seed: int = 0, **changes: Any) -> Result:
    """Random scores of two checkpoints, ragged: queries (or, in mode "train", examples) take TAU steps."""
    rng = np.random.default_rng(seed)
    steps = {"query": ("step",), "train": ("step",), "matrix": ("train_step", "step"), "tracin": ()}[mode]
    coords = {
        "checkpoint": ("a", "b"),
        "train": tuple(f"t-{k}" for k in range(N)),
        "query": tuple(f"q-{k}" for k in range(Q)),
        "step": tuple(range(1, T + 1)),
        "train_step": tuple(range(1, T + 1)),
    }
    dims = ("train", "query", *steps)

    def draw(*dims: str) -> Labelled:
        return Labelled(rng.normal(size=[len(coords[d]) for d in dims]), dims, coords)

    main, error = draw("checkpoint", *dims), draw(*dims)
    tau = np.resize(TAU, N if mode == "train" else Q)
    if mode == "query":
        main.values[..., np.arange(T) >= tau[:, None]] = 0
    if mode == "train":
        main.values.swapaxes(2, 3)[:, np.arange(T) >= tau[:, None]] = 0
    made = {
        "by_checkpoint": main,
        "outside": draw("train", "query"),
        "stderr": replace(error, values=np.abs(error.values)),
        "tracin_stderr": replace(draw("train", "query"), values=np.ones((N, Q))),
        "tau": Labelled(tau, ("train" if mode == "train" else "query",), coords),
    }
    return Result(mode=mode, info={"settings": {"m": 8}, "notes": ["one"]}, **{**made, **changes})
