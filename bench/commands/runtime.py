"""Runtime: featurising against an inference-only forward pass and a plain training step, and where the time goes.

Contenders take turns; the minimum over the rounds counts. What the audit's proof adds is a few hundredths of a pass,
less than two passes differ by chance: it is the median difference of pairs of passes, one right after the other, the
one with the proof first in every other pair. It has as many operations to follow whatever the number of tokens, so it
is also timed on few of them, where products are short and its own time stands out; the bar is judged on an eighth of
the tokens, and all are shown with standard errors. The authors' release and others are in `peers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch

from sdi.backends import room

from ..harness.bars import BARS_OF_RUNTIME, judge
from ..harness.chart import Chart
from ..harness.interleave import Progress, interleave
from ..harness.machine import THREADS
from ..harness.record import Record, Table
from ..work.cases import Case, gpt, sudoku
from ..work.contenders import SAYS, contender, seconds
from ..work.time_by_parameter import Profile

WORKS = ("gpt", "sudoku")
CONTENDERS = ("forward", "plain", "floor", "hooks", "recompute", "summed")
PARTS, JUDGED = (32, 8, 1), 8  # the proof is timed on these parts of the tokens
PAIRS, PAIRED = 15, 60.0  # of passes with and without the proof: so many, and more where these seconds hold more
PAPER_ADDED = "2.55 s at B=40, tau=32, on a GPU"


def measure_runtime(
    rounds: int = 3,
    quick: bool = False,
    works: Sequence[str] = WORKS,
    seed: int = 0,
    progress: Progress = lambda _: None,
) -> Record:
    """Time every contender on every work: the minimum over `rounds` rounds, after one that is not counted."""
    torch.set_num_threads(THREADS)
    for name in works:
        if name not in WORKS:
            raise ValueError(f"work must be one of {WORKS}, got {name!r}")
    figures: dict[str, list[float]] = {}
    tables, charts = [], []
    settings: dict[str, Any] = {"rounds": rounds, "quick": quick, "seed": seed}
    for name in works:
        case = gpt(2 if quick else 8, quick, seed) if name == "gpt" else sudoku(quick, seed)
        profile = Profile(case, case.model())
        found = _measure(case, profile, rounds, progress)
        best = {key: min(times) for key, times in found.items()}
        more = {tokens: _proof(case, tokens, profile, quick, progress) for tokens in _tokens(case, PARTS)}
        added = _audit(case, best, more)
        figures |= {f"{name} {key}": times for key, times in found.items()} | {f"{name} audit": [sum(added.values())]}
        figures |= {f"{name} proof, {tokens} tokens": times for tokens, times in more.items()}
        settings[name] = case.says
        tables += [
            _ratios(case, found),
            _parts(case, best),
            _layers(case, profile, best["hooks"]),
            _costs(case, best, added, more),
        ]
        bars = [(SAYS[key], best[key] / best["plain"]) for key in CONTENDERS]
        charts += [Chart(f"{name}: time / plain training step", "ratio", "", bars=bars)]
        charts += [Chart(f"{name}: where the time of a pass goes", "share of a pass", "", bars=_shares(best))]
    best = {name: min(times) for name, times in figures.items()}
    return Record("runtime", settings, figures, tables, judge(BARS_OF_RUNTIME, best), charts)


def _measure(case: Case, profile: Profile, rounds: int, progress: Progress) -> dict[str, list[float]]:
    model, batch, fast = profile.make.model, case.batch(), room("fast")
    turns: dict[str, Callable[[], float]] = {}
    for name in (*CONTENDERS, "alone"):
        turns[name] = partial(seconds, contender(name, model, case.config, case.sketch()), model, batch)
    turns["sketches"] = partial(profile.run, batch)
    features = contender("hooks", model, case.config, case.sketch())(batch)

    def scores(_: Any) -> None:
        fast.sdi(features, features)
        fast.tracin(features, features)

    turns["scores"] = partial(seconds, scores, model, batch)
    return interleave(turns, rounds, lambda text: progress(f"{case.name}: {text}"))


def _tokens(case: Case, parts: Sequence[int]) -> list[int]:
    return sorted({max(1, case.tokens // part) for part in parts})


def _proof(case: Case, tokens: int, profile: Profile, quick: bool, progress: Progress) -> list[float]:
    """What the proof adds to a pass over so many tokens, in seconds, in each pair of passes; in order of size."""
    model, batch = profile.make.model, replace(case, tokens=tokens).batch()
    runs = [contender(name, model, case.config, case.sketch()) for name in ("hooks", "proven")]
    for run in runs:
        run(batch)
    pairs = 1 if quick else max(PAIRS, round(PAIRED / (2 * seconds(runs[0], model, batch))))
    more = []
    for k in range(pairs):
        if k % 10 == 0:
            progress(f"{case.name}: the audit's proof on {tokens} tokens, pair {k + 1} of {pairs}")
        times = {which: seconds(runs[which], model, batch) for which in ((0, 1) if k % 2 else (1, 0))}
        more.append(times[1] - times[0])
    return sorted(more)


def _audit(case: Case, best: dict[str, float], more: Mapping[int, list[float]]) -> dict[str, float]:
    """The seconds that audit="first" adds to a later batch: its proof, and examples alone, as often as they are run."""
    share, (judged,) = room("fast.featurizer").ALONE, _tokens(case, [JUDGED])
    return {"proof": median(more[judged]), "alone": share * case.examples * best["alone"]}


def _costs(case: Case, best: dict[str, float], added: dict[str, float], more: Mapping[int, list[float]]) -> Table:
    rows = []
    for tokens, times in more.items():
        half = times[-1 - len(times) // 4] - times[len(times) // 4]
        error = 1.25 * half / 1.35 / len(times) ** 0.5  # of a median, were the times normal
        what = f"proof that losses are apart, timed on {tokens} tokens"
        rows.append([what, f"{median(times):.4f} ± {error:.4f}", _share(median(times), best), f"{len(times)}"])
    rows.append(["examples alone, as a mean over batches", f"{added['alone']:.4f}", _share(added["alone"], best), ""])
    columns = ("part", "seconds", f"share of a pass over {case.tokens} tokens", "pairs")
    return Table(f"{case.name}: what audit='first' adds to a later batch", columns, rows)


def _share(extra: float, best: dict[str, float]) -> str:
    return f"{extra / best['hooks']:.2%}"


def _ratios(case: Case, found: dict[str, list[float]]) -> Table:
    rows = []
    plain, forward = min(found["plain"]), min(found["forward"])
    for name in (*CONTENDERS, "scores"):
        times, best = found[name], min(found[name])
        slowest = f"+{max(times) / best - 1:.0%}"
        rows.append([SAYS[name], f"{best / plain:.3f}", f"{best / forward:.3f}", f"{best:.3f}", slowest])
    added = min(found["hooks"]) + min(found["scores"]) - forward
    rows.append(["features and scores, over inference only", f"{added / plain:.3f}", f"{added / forward:.3f}",
                 f"{added:.3f}", f"paper: {PAPER_ADDED}" if case.name == "gpt" else ""])  # fmt: skip
    columns = ("contender", "/ plain", "/ inference", "seconds, best", "slowest round")
    return Table(f"{case.name}: {case.says}", columns, rows)


def _shares(best: dict[str, float]) -> list[tuple[str, float]]:
    """The shares of one pass with hooks; the rest is Python hooks, kept activations, page faults and noise."""
    parts = {
        "forward": best["forward"],
        "backward, to inputs only": best["floor"] - best["forward"],
        "sketches": best["sketches"],
    }
    parts["everything else"] = best["hooks"] - sum(parts.values())
    return [(name, part / best["hooks"]) for name, part in parts.items()]


def _parts(case: Case, best: dict[str, float]) -> Table:
    rows = [[name, f"{share:.0%}", f"{share * best['hooks']:.3f}"] for name, share in _shares(best)]
    return Table(f"{case.name}: where the time of a pass with hooks goes", ("part", "share", "seconds"), rows)


def _layers(case: Case, profile: Profile, whole: float) -> Table:
    rows = [
        [
            layer.name, str(layer.count), "x".join(map(str, layer.shape)), layer.route, layer.sketch, str(layer.calls),
            f"{layer.seconds / whole:.1%}", f"{layer.seconds * 1e6 / max(layer.calls, 1):.0f}",
        ]
        for layer in profile.layers
    ]  # fmt: skip
    columns = ("parameter", "of them", "shape", "route", "sketch by", "calls", "share of a pass", "µs a call")
    return Table(f"{case.name}: sketches, layer by layer", columns, rows)
