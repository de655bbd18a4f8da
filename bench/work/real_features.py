"""Features of real runs: gradients of the pretrained models that ship, and features drawn with their spectrum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.backends import room
from sdi.inputs.checkpoints import find_checkpoints
from sdi.sketch.sketch_map import SketchMap

Array = np.ndarray
TASKS = ("parity", "sudoku")
SKETCHED = 64  # numbers for each parameter of the real features
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Spectrum:
    """What is known of a real run's features, along the principal axes of its training examples."""

    task: str
    directions: Float[Array, "w"]  # root mean square of each coordinate of a training example scaled to length one
    lengths: Float[Array, "n"]  # of the training examples
    phi: Float[Array, "q tau w"]  # the steps of the real queries
    energy: Float[Array, "w"]  # the share of the training examples' squared length along the first axes, cumulated

    @classmethod
    def of(cls, task: str, g: Float[Array, "n D"], phi: Float[Array, "q tau D"], width: int) -> Spectrum:
        """From real features: training examples, summed over steps, and queries."""
        _, sizes, axes = np.linalg.svd(g, full_matrices=False)
        keep = np.zeros((g.shape[1], width))
        keep[:, : len(axes[:width])] = axes[:width].T
        lengths = np.linalg.norm(g, axis=1)
        unit = (g / np.where(lengths > 0, lengths, 1)[:, None]) @ keep
        energy = np.cumsum(np.square(sizes)) / np.square(sizes).sum()
        return cls(task, np.sqrt(np.square(unit).mean(axis=0)), lengths, phi @ keep, energy)

    def draw(self, n: int, *seed: int) -> Float[Array, "n w"]:
        """Training examples: normal, with the spectrum, each multiplied by the length of a real one.

        So the spectrum is exact, and lengths vary more than the real ones, by the length of a normal vector.
        """
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((n, len(self.directions)), dtype=np.float32) * self.directions.astype(np.float32)
        lengths = self.lengths[rng.integers(0, len(self.lengths), n)]
        return x * lengths.astype(np.float32)[:, None]


def real_features(task: str, n: int, queries: int, tell: Tell, seed: int = 0) -> tuple[Array, Array]:
    """Gradients (n, D) of training examples and steps (queries, tau, D) of unseen ones, at the last checkpoint."""
    experiment = room(f"experiments.{task}")
    settings, checkpoints = experiment.pretrained()
    loss, loaders = _parity(experiment, n, queries, seed) if task == "parity" else _sudoku(settings, n, queries, seed)
    model = room("fast").LoopedTransformer(settings.model_config())
    model.load_state_dict({name: w.float() for name, w in find_checkpoints(checkpoints)[-1].weights().items()})
    loop = settings.model_config().loop()
    shapes = settings.model_config().shapes()
    sketch = SketchMap.draw({name: shapes[name] for name in loop.select(shapes)}, SKETCHED, seed)
    sides: list[list[Array]] = [[], []]
    for side, (loader, steps) in enumerate(zip(loaders, (False, True), strict=True)):
        for k, batch in enumerate(loader):
            tell(f"features of {task}, {('training examples', 'queries')[side]}, batch {k + 1} of {len(loader)}")
            inputs = {name: value for name, value in batch.items() if name != "id"}
            made = room("fast").featurize(model, loss, inputs, loop=loop, sketch=sketch, steps=steps, audit="off")
            sides[side].append(made.values)
    tau = max(values.shape[1] for values in sides[1])
    phi = [np.pad(values, ((0, 0), (0, tau - values.shape[1]), (0, 0))) for values in sides[1]]
    return np.concatenate(sides[0]), np.concatenate(phi)


def _parity(experiment: Any, n: int, queries: int, seed: int) -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(seed)
    strings = ["".join(rng.choice(["0", "1"], size)) for size in rng.integers(12, 21, 2 * (n + queries))]
    some = list(dict.fromkeys(strings))[: n + queries]
    return experiment.loss, [list(experiment.make_loader(part)) for part in (some[:n], some[n:])]


def _sudoku(settings: Any, n: int, queries: int, seed: int) -> tuple[Any, list[Any]]:
    boards = room("experiments.sudoku.boards").generate(n + queries, settings.size, seed)
    order = np.random.default_rng(seed).permutation(n + queries)
    parts = [boards.take(order[:n]), boards.take(order[n:])]
    batches = room("experiments.sudoku.batches")
    return batches.loss, [list(batches.make_loader(part, 16)) for part in parts]
