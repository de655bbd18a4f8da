"""Results made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdi import Result

N, Q, T = 5, 3, 4


TAU = np.array([4, 2, 3])


def make_result(mode: str = "query", seed: int = 0, **changes: Any) -> Result:
    """Random scores of two checkpoints, ragged: queries (or, in mode "train", examples) take TAU steps."""
    rng = np.random.default_rng(seed)
    steps = {"query": ("step",), "train": ("step",), "matrix": ("train_step", "step"), "tracin": ()}[mode]
    labels = {
        "checkpoint": ("a", "b"),
        "train": tuple(f"t-{k}" for k in range(N)),
        "query": tuple(f"q-{k}" for k in range(Q)),
        "step": tuple(range(1, T + 1)),
        "train_step": tuple(range(1, T + 1)),
    }
    dims = ("train", "query", *steps)

    def draw(*dims: str) -> np.ndarray:
        return rng.normal(size=[len(labels[d]) for d in dims])

    main, error = draw("checkpoint", *dims), draw(*dims)
    tau = np.resize(TAU, N if mode == "train" else Q)
    if mode == "query":
        main[..., np.arange(T) >= tau[:, None]] = 0
    if mode == "train":
        main.swapaxes(2, 3)[:, np.arange(T) >= tau[:, None]] = 0
    made = {
        "by_checkpoint": main,
        "outside": draw("train", "query"),
        "stderr": np.abs(error),
        "tracin_stderr": np.ones((N, Q)),
        "tau": tau,
        "loss": 1 + rng.random((2, Q)),
    }
    return Result(mode, labels, {**made, **changes}, {"settings": {"m": 8}, "notes": ["one"]})
