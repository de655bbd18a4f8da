"""Fidelity: relative error of sketched SDI and TracIn against m, on a looped GPT, with exact scores as the truth.

As in the paper: random tokens, one batch that is both training and query set, relative Frobenius error, mean over
sketch seeds, the slope of log error against log m. One pass per seed at the largest m gives all smaller ones by
folding. Then the bytes of one m are spread over the parameters by their norms on another batch (`sdi.spread`), and the
error compared, seed by seed. Conservation: the summed sketched steps against the sketch, by its definition, of
autograd's own gradient of the batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.run.spread import spread
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from ..harness.interleave import Progress
from ..harness.ledger import Ledger
from ..harness.machine import THREADS
from ..harness.record import Record
from ..work.cases import Batch, Case
from ..work.fidelity_work import WIDTHS, Work
from ..work.narrow_sketch import fold
from .fidelity_record import make_record

PILOT_M, PILOT_EXAMPLES = 256, 2


def small_gpt(d: int = 96, tau: int = 8, core: int = 2, examples: int = 4, tokens: int = 32, seed: int = 0) -> Case:
    """A looped GPT of the wanted size. A matrix with at most m entries is kept, so d * d should be above every m."""
    heads = next((h for h in (12, 8, 6, 4, 2, 1) if d % h == 0 and (d // h) % 2 == 0), None)
    if heads is None:
        raise ValueError(f"d must be even, got {d}")
    config = LoopedConfig.looped_gpt(vocab=512, classes=512, d=d, heads=heads, tau=tau, core=core, length=tokens)
    return Case("gpt", config, examples, tokens, WIDTHS[0], seed, identity_injection=False)


class Bench:
    """One model with its exact scores, and the errors of any sketch."""

    def __init__(self, work: Work) -> None:
        self.work, self.case, self.fast = work, work.case, room("fast")
        self.model: Any = self.case.model()
        self.batch = self.case.batch()

    def truth(self) -> dict[str, Any]:
        """Exact scores of the batch, by the route that never holds a step gradient."""
        scores = self.fast.exact_scores(
            self.model, self.fast.token_cross_entropy, [self.batch], [self.batch], loop=self.case.config.loop()
        )
        return {"sdi": scores.sdi.tolist(), "tracin": scores.tracin.tolist()}

    def featurize(self, sketch: SketchMap, batch: Batch | None = None) -> Features:
        features: Features = self.fast.featurize(
            self.model,
            self.fast.token_cross_entropy,
            self.batch if batch is None else batch,
            loop=self.case.config.loop(),
            sketch=sketch,
            audit="off",
        )
        return features

    def pilot(self) -> dict[str, int]:
        """The widths that take the bytes of one m, by the norms of a batch of its own."""
        batch = replace(self.case, examples=PILOT_EXAMPLES).batch(which=2)
        return spread(self.featurize(self.case.sketch(which=999, m=PILOT_M), batch), self.work.spread_at)

    def one_seed(self, which: int, truth: dict[str, Any], widths: dict[str, int]) -> dict[str, Any]:
        """Errors at every m, with spread widths, and conservation."""
        began = perf_counter()
        wide = self.case.sketch(which, max(self.work.widths))
        features = self.featurize(wide)
        folded = {m: fold(features, wide, self.case.sketch(which, m)) for m in self.work.widths}
        spent = self.case.sketch(which, widths)
        return {
            "errors": {str(m): errors(f, truth) for m, f in folded.items()},
            "batches": errors_by_batch(folded[self.work.spread_at], truth),
            "spread": errors(self.featurize(spent), truth),
            "conservation": self.conservation(features, wide),
            "seconds": perf_counter() - began,
        }

    def conservation(self, features: Features, sketch: SketchMap) -> float:
        """Relative error of the batch's gradient: sketched steps, summed, against the sketch of autograd's."""
        whole = {name: g.numpy().astype(np.float64) for name, g in self.gradient.items()}
        return relative(features.g.astype(np.float64).sum(axis=0), sketch.apply(whole))

    @cached_property
    def gradient(self) -> dict[str, Tensor]:
        """The gradient of the whole batch's loss, by autograd alone."""
        names = self.case.config.loop().select(self.case.config.shapes())
        body = {name: p for name, p in self.model.named_parameters() if name in set(names)}
        loss = self.fast.token_cross_entropy(self.model, self.batch).sum()
        return dict(zip(body, torch.autograd.grad(loss, list(body.values())), strict=True))


def errors(features: Features, truth: dict[str, Any]) -> list[float]:
    """The relative errors of SDI and of TracIn."""
    return errors_by_batch(features, truth)[str(len(features.values))]


def errors_by_batch(features: Features, truth: dict[str, Any]) -> dict[str, list[float]]:
    """The relative errors of SDI and TracIn for batches of 1, 2, 4, ... examples, cut from this one; means over cuts.

    Gradients of different examples are nearly orthogonal, so of n^2 scores only n are large, while all have errors of
    one size: the relative error grows with the batch.
    """
    fast, n = room("fast"), len(features.values)
    found = [(fast.sdi(features, features), np.array(truth["sdi"]))]
    found.append((fast.tracin(features, features), np.array(truth["tracin"])))
    sizes = sorted({n, *(2**k for k in range(n.bit_length()) if 2**k < n)})
    runs = {b: [np.arange(i, i + b) % n for i in range(n if b < n else 1)] for b in sizes}
    return {
        str(b): [float(np.mean([relative(x[np.ix_(r, r)], y[np.ix_(r, r)]) for r in runs[b]])) for x, y in found]
        for b in sizes
    }


def relative(estimate: Float[np.ndarray, "..."], truth: Float[np.ndarray, "..."]) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def measure_fidelity(work: Work, progress: Progress = lambda _: None, ledger: Ledger | None = None) -> Record:
    """Errors for every m and seed. What the ledger holds already is not measured again."""
    torch.set_num_threads(THREADS)
    ledger = ledger or Ledger()
    ledger.open({"case": work.case.to_dict(), "widths": work.widths, "spread": work.spread_at})
    bench = Bench(work)
    truth = ledger.once("exact scores", bench.truth, progress)
    widths = ledger.once("pilot", bench.pilot, progress)
    found = []
    for k in range(work.seeds):
        found.append(ledger.once(f"sketch {k + 1}", partial(bench.one_seed, k, truth, widths), progress))
        progress(f"sketch {k + 1} of {work.seeds}: {found[-1]['seconds']:.1f} s")
    pilot = f"{PILOT_EXAMPLES} other examples at m={PILOT_M}"
    return make_record(work, widths, found, pilot)
