"""analyse: one trained model -> influence on the probes, readouts, proxy and automaton, as one dictionary.

SDI profiles are summed over three choices of checkpoints:
  all   as in the paper
  able  those that get at least ABLE of the test strings right: a sum over all is ruled by the early ones, whose
        gradients are large because they cannot do the task yet
  last  the final weights alone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.inputs.checkpoints import find_checkpoints
from sdi.result.result import Result

from .forward import accuracy
from .influence import influence, zero_after_read_out
from .readouts import ProbeReadout, plain, read_automaton, read_probe, read_proxy
from .rotation import read_rotation
from .settings import SHORTEST, Settings
from .strings import PROBES, held_out, probe, training_sample, training_strings

ABLE = 0.99
Tell = Callable[[Any], None]


@dataclass(frozen=True)
class Analysis:
    """The analysis of one model, as `analyse` returns it and analysis.json holds it."""

    settings: Settings
    checkpoints: list[dict[str, Any]]  # name, eta, accuracy at the test length
    accuracy: dict[int, float]  # of the last checkpoint, by length
    probes: dict[str, ProbeReadout]
    zero_after: bool
    proxy: dict[str, Any]
    automata: list[dict[str, Any]]
    rotation: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {
            "settings": self.settings.to_dict(),
            "checkpoints": self.checkpoints,
            "accuracy": self.accuracy,
            "zero after the read-out": self.zero_after,
            "probes": {pattern: readout.to_dict() for pattern, readout in self.probes.items()},
            "proxy": plain(self.proxy),
            "automata": self.automata,
            "rotation": self.rotation,
        }


def analyse(
    settings: Settings, checkpoints: Sequence[Path], store: Path, tell: Tell = lambda progress: None
) -> tuple[Analysis, Result]:
    """Analyse one trained model: accuracy, probes, proxy and automata; not the influence on the test set.

    settings: those it was trained with. checkpoints: its files. store: a folder for features.
    tell: called with a line of text at every stage.
    """
    points = find_checkpoints(checkpoints)
    tests = held_out(settings, settings.test, settings.tests)
    models = [model_of(settings, point.weights()) for point in points]
    right = [accuracy(model, tests) for model in models]
    queries = [probe(settings.test, pattern) for pattern in PROBES]
    result = influence(settings, checkpoints, training_sample(settings), queries, store, tell=tell)
    profile = result.arrays["by_checkpoint"].sum(axis=1)  # (checkpoint, query, step)
    able = [k for k, share in enumerate(right) if share >= ABLE]
    chosen = {"all": list(range(len(points))), **({"able": able} if able else {}), "last": [len(points) - 1]}
    probes = {}
    for pattern, query in zip(PROBES, queries, strict=True):
        curves = profile[:, result.position("query", query)]
        sdi = {name: curves[rows].sum(axis=0, dtype=np.float64) for name, rows in chosen.items()}
        probes[pattern] = read_probe(models[-1], settings, pattern, sdi)
    lengths = {settings.longest, (settings.longest + settings.test) // 2, settings.test}
    return (
        Analysis(
            settings=settings,
            checkpoints=[
                {"name": p.path.stem, "eta": p.eta, "accuracy": share} for p, share in zip(points, right, strict=True)
            ],
            accuracy={n: accuracy(models[-1], unseen(settings, n)) for n in sorted(lengths)},
            probes=probes,
            zero_after=zero_after_read_out(result),
            proxy=read_proxy(models[-1], settings, probes["01"].centres),
            automata=read_automaton(models[-1], settings),
            rotation=read_rotation(models[-1], settings),
        ),
        result,
    )


def unseen(settings: Settings, n: int) -> list[str]:
    """Test strings of n bits that training never saw; training's own, if it has all strings of n bits."""
    return held_out(settings, n, settings.tests) or training_strings(settings, n)


def model_of(settings: Settings, weights: dict[str, Any]) -> Any:
    """The looped transformer with these weights."""
    model = room("fast").LoopedTransformer(settings.model_config())
    model.load_state_dict(weights)
    return model


def influence_on_tests(
    settings: Settings, checkpoints: Sequence[Path], store: Path, tell: Tell = lambda progress: None
) -> dict[str, Any]:
    """train -> test and train -> train: which lengths act, on which steps, and how much strings act on themselves."""
    train = training_sample(settings)
    tests = held_out(settings, settings.test, settings.tests)
    on_test = influence(settings, checkpoints, train, tests, store, tell=tell)
    on_train = influence(settings, checkpoints, train, train, store, trained_on=True, tell=tell)
    place = {name: k for k, name in enumerate(on_train.labels["query"])}
    names = on_train.labels["train"]
    own = {str(name): float(on_train.tracin_values[k, place[name]]) for k, name in enumerate(names)}
    by_train = {str(name): float(v) for name, v in zip(names, on_test.tracin_values.mean(axis=1), strict=True)}
    groups = by_length(train, settings.longest)
    return {
        "count": {"train": len(train), "test": len(tests), "checkpoints": len(checkpoints)},
        "zero after the read-out": zero_after_read_out(on_test) and zero_after_read_out(on_train),
        "energy per step": plain(np.abs(on_test.sdi_values).sum(axis=0).mean(axis=0)),
        "mean influence on a test": {g: float(np.mean([by_train[s] for s in some])) for g, some in groups.items()},
        "median self-influence": {g: float(np.median([own[s] for s in some])) for g, some in groups.items()},
    }


def by_length(strings: Sequence[str], longest: int) -> dict[str, list[str]]:
    """Strings in thirds of the lengths from the shortest, those of the longest apart."""
    out: dict[str, list[str]] = {}
    for lengths in np.array_split(np.arange(SHORTEST, longest), 3):
        some = [s for s in strings if lengths[0] <= len(s) <= lengths[-1]] if len(lengths) else []
        if some:
            out[f"{lengths[0]}-{lengths[-1]} bits"] = some
    return {**out, f"{longest} bits": [s for s in strings if len(s) == longest]}
