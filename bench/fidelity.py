"""Fidelity: relative error of sketched SDI and TracIn against m, on a looped GPT, with exact scores as the truth.

As in the paper: random tokens, one batch that is both training and query set, relative Frobenius error, mean over
sketch seeds, the slope of log error against log m. Conservation: the summed sketched steps against the sketch, by its
definition, of the summed exact gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from sdi.backends import room
from sdi.looped_config import LoopedConfig

from .cases import Case
from .interleave import Progress
from .machine import THREADS
from .record import Record, Table

PAPER = {"SDI error at m=2048": "0.0388", "TracIn error at m=2048": "0.0220", "slope": "-0.489"}
WIDTHS = (256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Truth:
    """Exact scores by the exact route, which never holds a step gradient, and the whole gradient of each parameter."""

    sdi: Float[np.ndarray, "n n tau"]
    tracin: Float[np.ndarray, "n n"]
    g: dict[str, np.ndarray]


@dataclass(frozen=True)
class Errors:
    """Of one sketch, relative."""

    sdi: float
    tracin: float
    conservation: float


def fidelity_case(d: int = 96, tau: int = 8, core: int = 2, examples: int = 4, tokens: int = 32) -> Case:
    """A looped GPT of the wanted size. A matrix with at most m entries is kept, so d * d should be above every m."""
    heads = next(h for h in (12, 8, 6, 4, 2, 1) if d % h == 0 and (d // h) % 2 == 0)
    config = LoopedConfig.looped_gpt(vocab=512, classes=512, d=d, heads=heads, tau=tau, core=core, length=tokens)
    return Case("gpt", config, examples, tokens, WIDTHS[0])


def measure_fidelity(
    case: Case, widths: Sequence[int] = WIDTHS, seeds: int = 10, progress: Progress = lambda _: None
) -> Record:
    """Errors for every m and seed."""
    if len(widths) < 2 or seeds < 1:
        raise ValueError(f"a slope needs at least two widths and one seed, got {list(widths)} and {seeds}")
    torch.set_num_threads(THREADS)
    model, batch = case.model(), case.batch()
    progress("exact scores")
    exact = exact_truth(case, model, batch)
    errors: dict[int, list[Errors]] = {}
    for m in widths:
        errors[m] = []
        for seed in range(seeds):
            progress(f"m={m}, seed {seed}")
            errors[m].append(_errors(replace(case, m=m), seed, model, batch, exact))
    return _record(case, errors)


def exact_truth(case: Case, model: object, batch: object) -> Truth:
    fast, loop = room("fast"), case.config.loop()
    scores = fast.exact_scores(model, fast.token_cross_entropy, [batch], [batch], loop=loop)
    dense = fast.featurize(model, fast.token_cross_entropy, batch, loop=loop, steps=False, audit="off")
    g = {b.name: dense.g[:, b.start : b.stop].reshape(-1, *b.shape) for b in dense.blocks}
    return Truth(scores.sdi, scores.tracin, g)


def _errors(case: Case, seed: int, model: object, batch: object, exact: Truth) -> Errors:
    fast, sketch = room("fast"), case.sketch(seed)
    sketched = fast.featurize(
        model, fast.token_cross_entropy, batch, loop=case.config.loop(), sketch=sketch, audit="off"
    )
    return Errors(
        sdi=_relative(fast.sdi(sketched, sketched), exact.sdi),
        tracin=_relative(fast.tracin(sketched, sketched), exact.tracin),
        conservation=_relative(sketched.g, sketch.apply(exact.g)),
    )


def _relative(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def slope(widths: Sequence[int], means: Sequence[float]) -> float:
    """Of log error against log m.

    >>> round(slope([1, 4, 16], [1.0, 0.5, 0.25]), 6)
    -0.5
    """
    return float(np.polyfit(np.log(widths), np.log(means), 1)[0])


def _record(case: Case, errors: dict[int, list[Errors]]) -> Record:
    sdi = {m: [e.sdi for e in found] for m, found in errors.items()}
    tracin = {m: [e.tracin for e in found] for m, found in errors.items()}
    worst = max(e.conservation for found in errors.values() for e in found)
    rows = [[str(m), _mean(sdi[m]), _mean(tracin[m])] for m in errors]
    steepness = slope(list(errors), [float(np.mean(sdi[m])) for m in errors])
    at = 2048 if 2048 in errors else max(errors)
    beside = [
        [f"SDI error at m={at}", _mean(sdi[at]), PAPER["SDI error at m=2048"] if at == 2048 else "-"],
        [f"TracIn error at m={at}", _mean(tracin[at]), PAPER["TracIn error at m=2048"] if at == 2048 else "-"],
        ["slope of log SDI error against log m", f"{steepness:.3f}", PAPER["slope"]],
        ["conservation, relative, worst", f"{worst:.1e}", "about 1e-7, absolute"],
    ]
    figures = {f"sdi m={m}": values for m, values in sdi.items()} | {f"tracin m={m}": v for m, v in tracin.items()}
    figures |= {"slope": [steepness], "conservation": [worst]}
    tables = [
        Table("Relative error, mean and standard deviation over seeds", ("m", "SDI", "TracIn"), rows),
        Table("Beside the paper's, which are of the 135.1M model, tau=32", ("figure", "here", "paper"), beside),
    ]
    c = case.config
    model = f"looped GPT, d={c.d}, {c.core} core blocks, tau={c.tau}, B={case.examples}, L={case.tokens}"
    return Record("fidelity", {"model": model, "seeds": len(next(iter(errors.values())))}, figures, tables)


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4f} ± {np.std(values):.4f}"
