"""sdi-bench fidelity: folding is exact, the errors are what they are said to be, and a stopped run goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import sdi
import sdi.fast
from sdi.bench import cli
from sdi.bench.commands import fidelity
from sdi.bench.commands.fidelity import Bench, Work, measure_fidelity, small_gpt
from sdi.bench.harness.intervals import exponent, mean_interval
from sdi.bench.harness.ledger import Ledger
from sdi.bench.work.narrow_sketch import fold
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.sketch_map import SketchMap

TINY = Work(small_gpt(16, 2, 1, 2, 6), (16, 64), 16, 2)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "THREADS", 1)


@pytest.mark.parametrize("m", [32, 16, 8, 1])
def test_a_folded_sketch_is_the_sketch_of_the_smaller_width(m: int) -> None:
    """On integers, so the sums are exact: CountSketch, TensorSketch, what is kept at one width, and at both."""
    shapes = {"matrix": (12, 9), "vector": (150,), "middle": (5, 5), "tiny": (1,)}
    wide, narrow = SketchMap.draw(shapes, 64, seed=7), SketchMap.draw(shapes, m, seed=7)
    assert isinstance(wide.sketches["matrix"], TensorSketch)
    assert isinstance(wide.sketches["vector"], CountSketch)
    assert isinstance(wide.sketches["middle"], Keep)
    random = np.random.default_rng(0)
    gradients = {name: random.integers(-9, 9, (2, 3, *shape)).astype(np.float64) for name, shape in shapes.items()}
    features = sdi.Features(
        wide.apply(gradients), np.array([3, 3]), wide.blocks, wide.label, wide.apply(gradients)[:, 0]
    )
    folded = fold(features, wide, narrow)
    assert np.array_equal(folded.values, narrow.apply(gradients))
    assert np.array_equal(folded.outside, narrow.apply(gradients)[:, 0])
    assert (folded.blocks, folded.sketch) == (narrow.blocks, narrow.label)


@pytest.mark.slow
def test_features_of_a_model_fold_to_those_of_the_narrow_sketch() -> None:
    case = sdi.bench.work.cases.sudoku(quick=True)  # biases and norms, too
    model, batch, fast = case.model().double(), case.batch(), sdi.fast
    wide, narrow = case.sketch(3, 128), case.sketch(3, 32)

    def features(sketch: SketchMap) -> sdi.Features:
        return fast.featurize(model, fast.token_cross_entropy, batch, loop=case.config.loop(), sketch=sketch)

    expected = features(narrow)
    found = fold(features(wide), wide, narrow)
    scale = np.abs(expected.values).max()
    assert np.abs(found.values - expected.values).max() <= 1e-12 * scale


def test_what_does_not_follow_from_the_wide_sketch_is_refused() -> None:
    shapes = {"w": (9, 9)}
    wide = SketchMap.draw(shapes, 64, seed=0)
    features = sdi.Features(np.ones((1, 1, 64)), np.array([1]), wide.blocks, wide.label)
    for narrow in (SketchMap.draw(shapes, 32, seed=1), SketchMap.draw(shapes, 24, seed=0)):
        with pytest.raises(sdi.SketchMismatch, match="does not follow from that of width 64"):
            fold(features, wide, narrow)
    with pytest.raises(sdi.SketchMismatch, match="features were made with"):
        fold(features, SketchMap.draw(shapes, 32, seed=0), SketchMap.draw(shapes, 16, seed=0))


@pytest.mark.slow
def test_the_errors_are_those_of_dense_features() -> None:
    bench = Bench(TINY)
    truth = bench.truth()
    dense = sdi.fast.featurize(
        bench.model, sdi.fast.token_cross_entropy, bench.batch, loop=TINY.case.config.loop(), audit="off"
    )
    assert fidelity.relative(np.array(truth["sdi"]), sdi.fast.sdi(dense, dense)) < 1e-5
    assert fidelity.relative(np.array(truth["tracin"]), sdi.fast.tracin(dense, dense)) < 1e-5
    sketched = bench.featurize(TINY.case.sketch(1, 16))
    expected = np.linalg.norm(sdi.fast.sdi(sketched, sketched) - sdi.fast.sdi(dense, dense))
    found = fidelity.errors(sketched, truth)[0]
    assert found == pytest.approx(expected / np.linalg.norm(sdi.fast.sdi(dense, dense)), rel=1e-3)


@pytest.mark.slow
def test_the_error_of_a_smaller_batch_is_that_of_its_own_scores() -> None:
    bench = Bench(TINY)
    truth, sketched = bench.truth(), bench.featurize(TINY.case.sketch(1, 16))
    n, exact = len(sketched.values), np.array(truth["tracin"])
    found = fidelity.errors_by_batch(sketched, truth)
    assert list(found) == sorted({"1", "2", str(n)})
    alone = np.diag(sdi.fast.tracin(sketched, sketched)) / np.diag(exact) - 1
    assert found["1"][1] == pytest.approx(np.abs(alone).mean(), rel=1e-5)
    assert found[str(n)] == fidelity.errors(sketched, truth)


def test_conservation_is_of_autograd_s_gradient() -> None:
    bench = Bench(TINY)
    sketch = TINY.case.sketch(0, 16)
    features = bench.featurize(sketch)
    assert 0 < bench.conservation(features, sketch) < 1e-6
    other = Bench(TINY)
    with torch.no_grad():
        other.model.core[0].attn.q.weight.mul_(1.5)
    assert other.conservation(features, sketch) > 1e-3


@pytest.mark.slow
def test_the_command_writes_errors_slopes_and_the_spread(tmp_path: Path) -> None:
    file, picture = tmp_path / "f.json", tmp_path / "f.png"
    found = CliRunner().invoke(cli.app, ["fidelity", "--quick", "--json", str(file), "--plot", str(picture)])
    assert found.exit_code == 0, found.output
    assert "-0.489" in found.output
    content = json.loads(file.read_text())
    assert [len(content["figures"][name]) for name in ("sdi m=64", "tracin m=256", "sdi spread", "slope per seed")] == [
        2
    ] * 4
    assert max(content["figures"]["conservation"]) < 1e-6
    assert [bar["value"] is None for bar in content["bars"]] == [True] * 4 + [False] * 4
    assert picture.stat().st_size > 10_000
    assert not list(tmp_path.glob("*.so-far"))


@pytest.mark.slow
def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f.json"
    whole = measure_fidelity(TINY)
    real, calls = Bench.one_seed, []

    def stopped(self, which, truth, widths):
        calls.append(which)
        if calls == [0, 1]:
            raise KeyboardInterrupt
        return real(self, which, truth, widths)

    monkeypatch.setattr(Bench, "one_seed", stopped)
    with pytest.raises(KeyboardInterrupt):
        measure_fidelity(TINY, ledger=Ledger(file))
    monkeypatch.setattr(Bench, "truth", None)  # it was measured before
    again = measure_fidelity(TINY, ledger=Ledger(file))
    assert calls == [0, 1, 1]
    for name, values in whole.figures.items():
        if not name.startswith("seconds"):
            assert list(again.figures[name]) == list(values), name
    with pytest.raises(ValueError, match="holds a run with other settings"):
        measure_fidelity(replace(TINY, widths=(16, 32)), ledger=Ledger(file))


def test_bad_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="widths must be two or more that divide the largest"):
        Work(TINY.case, (48, 64), 48)
    with pytest.raises(ValueError, match="the m to be spread must be one of"):
        Work(TINY.case, (16, 64), 2048)


def test_intervals_cover_what_they_should() -> None:
    """2,000 samples of 5: a 95% interval misses 100 of them give or take 10; alpha about 1e-4 for the range."""
    random = np.random.default_rng(0)
    samples = random.standard_normal((2000, 5))
    missed = sum(not (i.low <= 0 <= i.high) for i in map(mean_interval, samples))
    assert 62 <= missed <= 138
    x = [1, 2, 4, 8, 16]
    fits = [exponent(x, np.exp(0.7 * np.log(x) + 0.1 * e)) for e in samples]
    missed = sum(not (f.low <= 0.7 <= f.high) for f in fits)
    assert 62 <= missed <= 138
    assert exponent([1, 2], [1.0, 4.0]).value == pytest.approx(2)
    assert np.isinf(exponent([1, 2], [1.0, 4.0]).half)
    with pytest.raises(ValueError, match="all values above 0"):
        exponent([1, 2], [0.0, 1.0])
