"""How often intervals of 95% hold the exact score, and how wide they are: a line for every cell, and the worst cells.

    python docs/results/error_bars/measure.py MODELS SKETCHES WIDTHS SEEDS

such as `one,few,untrained tensor,kronecker 64,256,1024 300`. Models: "one", a small looped GPT trained for 150 steps on
sequences of one token, whose gradients are outer products, the worst case of the bound; "few", on eight tokens;
"untrained", the same before training; "parity", the pretrained one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import sdi
import sdi.fast as fast
from sdi.backends import room
from sdi.scores.standard_error import Z95, Sizes, block_norms, standard_error
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch

BARS = ("bound", "estimated")


def gpt(length: int, trained: bool, n: int = 10) -> sdi.Features:
    config = sdi.LoopedConfig.looped_gpt(
        vocab=32, classes=32, d=32, heads=2, tau=3, prelude=0, core=1, coda=0, length=length
    )
    model, random = fast.LoopedTransformer.init(config, seed=0), torch.Generator().manual_seed(0)

    def batch(n: int) -> dict[str, torch.Tensor]:
        tokens = torch.cumsum(torch.randint(0, 3, (n, length + 1), generator=random), 1) % 32
        return {"tokens": tokens[:, :-1], "targets": tokens[:, 1:]}

    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150 if trained else 0):
        optimiser.zero_grad()
        fast.token_cross_entropy(model, batch(32)).mean().backward()
        optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return fast.featurize(model.double(), fast.token_cross_entropy, batch(n), loop=config.loop(), audit="off")


def parity(n: int = 10) -> sdi.Features:
    from safetensors.torch import load_file

    settings, checkpoints = room("experiments.parity").pretrained()
    batches: Any = room("experiments.parity.batches")
    model = fast.LoopedTransformer(settings.model_config())
    model.load_state_dict(load_file(checkpoints[-1]))
    rng = np.random.default_rng(0)
    lengths = [(3, 4, 4, 5, 5, 6, 6, 7, 7, 8)[k % 10] + k // 10 for k in range(n)]
    strings = ["".join(rng.choice(["0", "1"], length)) for length in lengths]
    batch = batches.make_batch(list(dict.fromkeys(strings)))
    return fast.featurize(model.double(), batches.loss, batch, loop=settings.model_config().loop(), audit="off")


MODELS = {
    "one": partial(gpt, 1, True),
    "few": partial(gpt, 8, True),
    "untrained": partial(gpt, 8, False),
    "parity": parity,
}


def apply(sketch: Any, x: np.ndarray) -> np.ndarray:
    """As `sketch.apply`, of flat rows; quick for hashes."""
    if isinstance(sketch, TensorSketch | CountSketch):
        at, sign = (sketch.H, sketch.S) if isinstance(sketch, TensorSketch) else (sketch.h, sketch.s)
        return np.stack([np.bincount(at.ravel(), sign.ravel() * row, sketch.m) for row in x])
    return np.asarray(sketch.apply(x.reshape(len(x), *sketch.shape)))


def cells(f: sdi.Features, sketch: str, m: int, seeds: range) -> Iterator[tuple[str, dict[str, tuple[float, float]]]]:
    """For each kind of pair: of either kind of bar, the share that holds, and claimed over measured deviation."""
    n, tau, D = f.phi.shape
    targets = np.concatenate([f.g[:, None], f.phi], axis=1).reshape(-1, D)  # the total, then every step
    exact, scores, errors = f.g @ targets.T, [], {bars: [] for bars in BARS}
    shapes = {b.name: b.shape for b in f.blocks}
    for seed in seeds:
        drawn = sdi.SketchMap.draw(shapes, m, seed, sketch=sketch)
        sides = []
        for x in (f.g, targets):
            values = [apply(drawn.sketches[b.name], x[:, b.start : b.stop]) for b in f.blocks]
            made = sdi.Features(np.concatenate(values, axis=1), np.ones(len(x), int), drawn.blocks, drawn.label)
            sides.append(Sizes(made.values, block_norms(made.values, made), None))
        scores.append(sides[0].values @ sides[1].values.T)
        for bars in BARS:
            errors[bars].append(standard_error(drawn, *sides, np.ones(len(drawn.blocks)), bars))
    off = np.abs(np.array(scores) - exact)
    spread, norms = np.sqrt(np.square(off).mean(0)), np.outer(*(np.linalg.norm(x, axis=1) for x in (f.g, targets)))
    seen = (norms > 1e-9 * norms.max()) & (spread > 1e-12)  # steps after a read-out have no gradient
    own, total = np.repeat(np.eye(n, dtype=bool), tau + 1, axis=1), np.tile(np.arange(tau + 1) == 0, n)[None]
    for name, kind in (("self total", own & total), ("self step", own & ~total),
                       ("cross total", ~own & total), ("cross step", ~own & ~total)):  # fmt: skip
        found = {}
        for bars, error in errors.items():
            typical = np.sqrt(np.square(error).mean(0))[kind & seen] / spread[kind & seen]
            found[bars] = (float((off <= Z95 * np.array(error))[:, kind & seen].mean()), float(np.median(typical)))
        yield name, found


def main(models: str, sketches: str, widths: str, seeds: str) -> None:
    worst: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for model in models.split(","):
        features = MODELS[model]()
        for sketch in sketches.split(","):
            for m in map(int, widths.split(",")):
                for name, found in cells(features, sketch, m, range(1000, 1000 + int(seeds))):
                    words = "  ".join(f"{bars} {share:6.1%} at {ratio:.2f}" for bars, (share, ratio) in found.items())
                    print(f"{model:9} {sketch:10} m={m:<4} {name:11}  {words}", flush=True)
                    for bars, (share, ratio) in found.items():
                        worst.setdefault((sketch, bars), []).append((share, ratio, f"{model} m={m} {name}"))
    for (sketch, bars), all_found in worst.items():
        print(f"worst: {sketch:10} {bars:9} {min(all_found)[0]:.1%} ({min(all_found)[2]})")


if __name__ == "__main__":
    main(*sys.argv[1:])
