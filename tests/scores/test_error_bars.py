"""How sure: intervals cover the exact score as often as they say, and the chosen m keeps the error that was asked for.

Coverage is counted over SEEDS sketches fixed beforehand, with one score per training example, query and step. A score's
count is binomial; a claim of 95% is rejected if any count is so low that it would have a probability below
alpha = 1e-3 / (number of scores). Scores of one seed share a sketch and may be correlated: a union bound allows for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import LOOP, TRAIN, World, dense, make_model, make_world, one_batch, world
from scipy.stats import binom

import sdi
import sdi.fast
from sdi import Features, Result, SketchMap
from sdi.fast import token_cross_entropy
from sdi.inputs.checkpoints import find_checkpoints
from sdi.result.score_store import score
from sdi.run.attribute import average
from sdi.run.choose_m import relative_error
from sdi.scores.standard_error import Z95, sizes
from sdi.sketch.bounds import worst_case
from sdi.store.store import Row

pytestmark = pytest.mark.slow


__all__ = ["world"]

SEEDS, ALPHA = range(1000, 1200), 1e-3


def sketched(dense: Features, x: np.ndarray, sketch: SketchMap) -> Features:
    """Features with the sketch, by its definition, of x, which is g or phi of dense ones."""
    parts = {b.name: x[..., b.start : b.stop].reshape(*x.shape[:-1], *b.shape) for b in dense.blocks}
    return Features(sketch.apply(parts), dense.tau, sketch.blocks, sketch.label)


class InMemory:
    """Sketches of dense features, read as a store is."""

    def __init__(self, sketch: SketchMap, features: dict[tuple[str, str], Features]) -> None:
        self.sketch, self.blocks, self.features = sketch, sketch.blocks, features
        self.dtype = np.dtype(np.float64)

    def bars(self, stderr: str) -> str:
        return "bound" if stderr == "auto" else stderr

    def look(self, places: Any, share: Any) -> None:
        """There is one process."""

    def rows(self, checkpoint: str, side: str) -> dict[str, Row]:
        """All in one shard."""
        return {i: Row(Path("shard"), k, "", 0) for k, i in enumerate(self.features[checkpoint, side].ids)}

    def read(self, checkpoint: str, side: str, ids: Any) -> Features:
        f = self.features[checkpoint, side]
        return sketched(f, f.g if side == "train" else f.phi, self.sketch)


@pytest.fixture(scope="module")
def runs() -> tuple[list[Result], Result]:
    """A result for each seed, and the exact one, of two checkpoints that share one sketch."""
    with pytest.MonkeyPatch.context() as patch, make_world(patch) as made:
        points = find_checkpoints(made.folder / "ckpt/*.safetensors")
        train, query = dense(made)
        both = {(p.key, "train"): f for p, f in zip(points, train, strict=True)}
        both |= {(p.key, "query"): f for p, f in zip(points, query, strict=True)}
        shapes = {b.name: b.shape for b in train[0].blocks}

        def result(sketch: SketchMap) -> Result:
            return score(InMemory(sketch, both), points, train[0].ids, query[0].ids, "query", {})  # type: ignore[arg-type]

        return [result(SketchMap.draw(shapes, 32, seed)) for seed in SEEDS], result(SketchMap.keep(shapes))


def covered(results: list[Result], exact: Result, name: str = "sdi", shrink: float = 1.0) -> np.ndarray:
    """For each result and score, whether score +- 1.96 stderr / shrink holds the exact score."""
    stderr = "stderr" if name == "sdi" else "tracin_stderr"
    wanted = getattr(exact, name).values
    return np.stack(
        [np.abs(getattr(r, name).values - wanted) <= Z95 * getattr(r, stderr).values / shrink for r in results]
    )


def is_rejected(inside: np.ndarray) -> bool:
    """Whether these counts speak against a coverage of 95%."""
    counts = inside.reshape(len(inside), -1).sum(axis=0)
    return bool(binom.cdf(counts, len(inside), 0.95).min() < ALPHA / len(counts))


def test_the_counting_rejects_what_covers_too_little() -> None:
    rng = np.random.default_rng(0)
    assert not is_rejected(rng.random((200, 60)) < 0.95)
    assert not is_rejected(np.ones((200, 60), bool))
    assert is_rejected(rng.random((200, 60)) < 0.85)


@pytest.mark.parametrize("name", ["sdi", "tracin"])
def test_intervals_of_95_percent_cover_the_exact_score_at_least_that_often(runs: Any, name: str) -> None:
    results, exact = runs
    inside = covered(results, exact, name)
    assert not is_rejected(inside)
    assert inside.mean() >= 0.95
    assert is_rejected(covered(results, exact, name, shrink=6))
    assert covered(results, exact, name, shrink=6).mean() < 0.95


def test_the_scores_are_unbiased_and_their_spread_is_below_the_standard_error(runs: Any) -> None:
    results, exact = runs
    scores = np.stack([r.sdi.values for r in results])
    spread = scores.std(axis=0, ddof=1)
    z = (scores.mean(axis=0) - exact.sdi.values) / (spread / np.sqrt(len(results)))
    assert np.abs(z).max() < 5  # 63 scores: false alarm below 4e-5
    typical = np.sqrt(np.mean([np.square(r.stderr.values) for r in results], axis=0))
    assert (spread <= typical).all()


@pytest.mark.parametrize("repeats", [2, 4])
def test_intervals_measured_from_few_sketches_cover_too(runs: Any, repeats: int) -> None:
    results, exact = runs
    means = [average(results[k : k + repeats]) for k in range(0, len(results), repeats)]
    for name in ("sdi", "tracin"):
        inside = covered(means, exact, name)
        assert not is_rejected(inside)
        assert inside.mean() >= 0.93  # Student's t takes the scores for normal, which they are nearly


def test_without_students_t_two_sketches_would_cover_too_little(runs: Any) -> None:
    results, exact = runs
    means = [average(results[k : k + 2]) for k in range(0, len(results), 2)]
    assert is_rejected(covered(means, exact, shrink=12.706 / Z95))


def errors_at(m: int, seeds: range) -> float:
    """The error of sdi at m over fresh seeds, relative to |g| |phi|, against the exact scores: all pairs and steps."""
    exact = sdi.fast.featurize(make_model(1), token_cross_entropy, one_batch(TRAIN), loop=LOOP, audit="off")
    scale = np.linalg.norm(exact.g, axis=-1)[:, None, None] * np.linalg.norm(exact.phi, axis=-1)[None]
    wanted = sdi.backend("fast").sdi(exact, exact)
    shapes, squares = {b.name: b.shape for b in exact.blocks}, []
    for seed in seeds:
        f = sketched(exact, exact.phi, SketchMap.draw(shapes, m, seed))
        squares.append(np.square((sdi.backend("fast").sdi(f, f) - wanted) / scale).mean())
    return float(np.sqrt(np.mean(squares)))


@pytest.mark.parametrize("target", [0.3, 0.1])
def test_the_chosen_m_keeps_the_error_that_was_asked_for(target: float) -> None:
    chosen = sdi.choose_m(target, model=make_model(1), loss=token_cross_entropy, loop=LOOP, batch=one_batch(TRAIN))
    assert chosen.pilot is not None
    assert chosen.pilot <= chosen.bound
    fresh = range(5000, 5012)
    assert errors_at(chosen.bound, fresh) <= target
    assert errors_at(chosen.pilot, fresh) <= target
    assert errors_at(max(1, chosen.pilot // 16), fresh) > target  # the choice says something


def test_a_pilot_that_kept_every_parameter_does_not_promise_that_m_1_is_enough() -> None:
    """At m = 256 no parameter of this model is sketched: the pilot sees no error, which says nothing of smaller m."""
    options = {"model": make_model(1), "loss": token_cross_entropy, "loop": LOOP, "batch": one_batch(TRAIN)}
    chosen = sdi.choose_m(0.2, pilot_m=256, **options)
    assert chosen.pilot_error is not None
    assert chosen.pilot_error < 1e-12
    assert chosen.pilot is not None
    assert 1 < chosen.pilot <= 256
    assert errors_at(chosen.pilot, range(5000, 5012)) <= 0.2
    assert errors_at(chosen.pilot // 2, range(5000, 5012)) > 0.2  # and it is the smallest


def test_the_pilots_batch_is_audited() -> None:
    def shrinks_with_the_batch(model: Any, batch: Any) -> Any:
        return token_cross_entropy(model, batch) / len(batch["tokens"])

    with pytest.raises(sdi.errors.AuditError, match="divided by the size of the batch"):
        sdi.choose_m(0.3, model=make_model(1), loss=shrinks_with_the_batch, loop=LOOP, batch=one_batch(TRAIN))


def test_the_bound_alone_needs_no_model() -> None:
    chosen = sdi.choose_m(0.05)
    assert (chosen.bound, chosen.pilot, chosen.pilot_error) == (4096, None, None)
    sketch = SketchMap.draw({"w": (99, 99)}, chosen.bound)
    assert worst_case(sketch.sketches["w"]) <= 0.05**2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": 0}, "^target must be a number above 0, finite, got 0$"),
        ({"target": float("nan")}, "^target must be a number above 0, finite, got nan$"),
        ({"target": "a"}, "^target must be a number above 0, finite, got 'a'$"),
        ({"target": np.True_}, r"^target must be a number above 0, finite, got np\.True_$"),
        ({"target": None}, "^target must be a number above 0, finite, got None$"),
        ({"repeats": 2.5}, "^repeats must be an integer, got 2.5$"),
        ({"pilot_m": 0}, "^pilot_m must be at least 1, got 0$"),
        ({"seed": -1}, "^seed must be at least 0, got -1$"),
        ({"model": 1}, "^a pilot needs model, loss, loop and batch; got a model without the others$"),
        (
            {"model": 1, "loss": 1, "loop": 1, "batch": 1, "repeats": 1},
            "^repeats must be at least 2 to see a spread, got 1$",
        ),
    ],
)
def test_wrong_questions_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        sdi.choose_m(**{"target": 0.1, **options})


def test_no_gradient_at_all_has_no_error() -> None:
    sketch = SketchMap.keep({"w": (2,)})
    nothing = Features(np.zeros((2, 1, 2)), np.ones(2, int), sketch.blocks, sketch.label)
    assert relative_error([nothing, nothing]) == 0.0


@pytest.mark.parametrize("mode", ["query", "train", "matrix", "tracin"])
def test_without_a_sketch_the_rounding_of_float16_is_the_error(mode: str) -> None:
    """Every score is within 1.96 stderr; that a claim 1/256 as large is false for some shows that this can fail."""
    with pytest.MonkeyPatch.context() as patch, make_world(patch) as made:
        exact, half = (made.attribute(m=None, mode=mode, dtype=dtype) for dtype in ("float64", "float16"))
    assert not exact.stderr.values.any()
    for name, stderr in (("sdi", half.stderr), ("tracin", half.tracin_stderr)):
        error = np.abs(getattr(half, name).values - getattr(exact, name).values)
        assert error.any()
        assert (error <= Z95 * stderr.values).all()
        assert (error > Z95 * stderr.values / 256).any()


def test_the_rounding_of_a_sum_over_steps_is_that_of_every_step() -> None:
    """Steps that cancel: what is left of them is nothing but rounding, and its error is as large as theirs."""
    sketch = SketchMap.keep({"w": (2,)})
    steps = np.array([[[1.0, 2.0], [-1.0, -2.0]]])
    made = sizes(Features(steps, np.array([2]), sketch.blocks, sketch.label), np.dtype(np.float16), whole=True)
    assert made.squares.tolist() == [[0.0]]
    assert made.rounding is not None
    assert made.rounding.tolist() == [[2 * 5 * 2.0**-22]]
    outside = Features(steps, np.array([2]), sketch.blocks, sketch.label, np.array([[3.0, 0.0]]))
    with_outside = sizes(outside, np.dtype(np.float16), whole=True)
    assert with_outside.rounding is not None
    assert with_outside.rounding.tolist() == [[19 * 2.0**-22]]


@pytest.mark.parametrize(("options", "doubtful"), [({"sketch": "mask"}, True), ({"m": 4}, True), ({}, False)])
def test_a_result_says_where_its_error_bars_cannot_be_trusted(world: World, options: Any, doubtful: bool) -> None:
    """Norms are seen through the sketch; one that is off by their own size may show nothing."""
    notes = world.attribute(**options).notes
    assert any("error bars may be far too small for " in note for note in notes) == doubtful
