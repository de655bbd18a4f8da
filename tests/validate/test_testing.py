"""`sdi.testing`: what it draws, what its assertions say when they fail, and our own properties written with it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from broken_sketches import BiasedSigns, Clips, HalfTheBound, ThreefoldBehindAClaim, TwinWithoutSigns
from good_sketch import Good
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TESTS
from typer.testing import CliRunner

from sdi import LoopedConfig, SketchMap
from sdi.backends import room
from sdi.cli import app
from sdi.sketch.load import SHIPPED, load_sketch
from sdi.testing import (
    LoopedCase,
    assert_backends_agree,
    assert_conserves,
    assert_linear,
    assert_unbiased,
    assert_within_bound,
    gradients,
    looped_cases,
    looped_configs,
    sketch_maps,
    sketches,
    taus,
)
from sdi.testing.strategies import KINDS
from sdi.validate import PROPERTIES
from sdi.validate import report as reports

pytestmark = pytest.mark.slow


pytest_plugins = ["pytester"]
exact = settings(deadline=None, derandomize=True, database=None, max_examples=40)
CONFIG = LoopedConfig(vocab=4, classes=3, d=4, heads=1, tau=2, length=4)


@exact
@given(sketches(), st.data())
def test_every_sketch_is_linear(sketch, data):
    x, y = (data.draw(gradients(sketch.shape, lead=(2,))) for _ in range(2))
    both, apart = sketch.apply(3 * x - 0.5 * y), 3 * sketch.apply(x) - 0.5 * sketch.apply(y)
    size = 3 * np.abs(x).sum() + np.abs(y).sum()
    assert np.abs(both - apart).max() <= 1e-12 * size


@settings(exact, max_examples=12)
@given(looped_cases(qk_norm=False), st.data())
def test_both_backends_give_the_same_sketches_of_any_kind(case, data):
    assert_backends_agree(case, data.draw(sketch_maps(case.body)))


@settings(exact, max_examples=8)
@given(looped_cases(), st.data())
def test_steps_are_conserved_by_any_sketch(case, data):
    model, batch = case.torch()
    sketch = data.draw(sketch_maps(case.body))
    assert_conserves(model, room("fast").token_cross_entropy, batch, loop=case.loop, sketch=sketch)


def test_the_strategies_reach_what_they_promise():
    seen: set[object] = set()

    @settings(exact, max_examples=100)
    @given(sketches())
    def collect_sketches(sketch):
        seen.add(type(sketch).__name__)
        seen.add(("axes", len(sketch.shape)))

    @exact
    @given(taus(3), looped_configs(bptt=None), st.data())
    def collect(tau, config, data):
        seen.add(("ragged", len(set(tau.tolist())) > 1))
        assert config.bptt is None
        kind = data.draw(st.sampled_from(KINDS))
        x = data.draw(gradients((3, 4), lead=(2,), kinds=[kind]))
        assert x.shape == (2, 3, 4)
        if kind == "rank one":
            assert np.linalg.matrix_rank(x).max() == 1
        if kind == "whole":
            assert x.dtype == np.int64
        if kind == "sparse":
            seen.add(("zeros", bool((x == 0).any())))

    collect_sketches()
    collect()
    classes = {
        "CountSketch", "TensorSketch", "Keep", "GaussianSketch", "RademacherSketch", "KroneckerSketch", "SparseSketch",
        "HadamardSketch", "MaskSketch",
    }  # fmt: skip
    assert classes | {("axes", 1), ("axes", 2), ("ragged", True), ("zeros", True)} <= seen
    assert len(classes) == len(SHIPPED) + 1


@pytest.mark.sdi_statistical(alpha=2e-6)
@pytest.mark.usefixtures("few_other_sizes")
def test_a_good_sketch_passes(sdi_seed):
    assert_unbiased(Good, draws=500, seed=sdi_seed)
    assert_within_bound(Good, draws=500, seed=sdi_seed)


@pytest.mark.parametrize(
    ("check", "broken", "says"),
    [
        (assert_unbiased, BiasedSigns, "not true that the mean of <S x, S y> over draws is <x, y>"),
        (assert_within_bound, HalfTheBound, "not true that Var <S x, S y> is at most variance_factor() |x|^2 |y|^2"),
    ],
)
def test_a_broken_one_fails_with_its_rate_its_case_and_its_seed(check, broken, says):
    with pytest.raises(AssertionError) as error:
        check(broken, draws=500, seed=3, alpha=1e-5)
    message = str(error.value)
    assert says in message
    assert "smallest failing case: shape (" in message
    assert "a good sketch fails this check with probability at most 1e-05" in message
    assert f"{check.__name__}({broken.__name__}, shape=(8, 6), m=16, seed=3, draws=500, alpha=1e-05)" in message


def test_a_sketch_that_is_not_linear_fails_with_its_case_and_its_seed():
    assert_linear(Good)
    with pytest.raises(AssertionError) as error:
        assert_linear(Clips, seed=3)
    message = str(error.value)
    assert "not true that S(a x + b y) = a S(x) + b S(y)" in message
    assert "smallest failing case: shape (1,), 1 number, a=1e+30, b=-3e+30, x=[1], y=[1]" in message
    assert "drawn with seed 3000001" in message
    assert "it fails always or never" in message
    assert repeated(error).endswith("assert_linear(Clips, shape=(8, 6), m=16, seed=3)")


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [
        (sketches([Good], shape=(4, 3)), "Good.draw((4, 3), m=1, seed=0, name='w')"),
        (sketch_maps({"w": (4, 5)}, ["tensor"]), "SketchMap.draw({'w': (4, 5)}, m=1, seed=0, sketch='tensor')"),
        (looped_cases(), "LoopedCase(make_model(LoopedConfig(vocab=1, classes=2, d=4, heads=1, tau=1"),
    ],
)
def test_hypothesis_shows_a_failing_case_by_its_size_and_its_seed(strategy, shown):
    @settings(exact, max_examples=3)
    @given(strategy)
    def fails(case):
        raise AssertionError

    with pytest.raises(AssertionError) as error:
        fails()
    said = " ".join("".join(error.value.__notes__).split()).replace("( ", "(")
    assert shown in said
    assert "array(" not in said
    assert " at 0x" not in said


def repeated(error):
    """The line that an assertion says repeats it."""
    return re.search(r"^  repeat with: (.*)$", str(error.value), flags=re.M)[1]


@pytest.mark.parametrize("options", [{}, {"alpha": 1e-5}])
def test_the_line_that_repeats_a_failure_runs_and_fails_alike(options):
    with pytest.raises(AssertionError) as error:
        assert_unbiased(BiasedSigns, shape=(7, 5), m=8, draws=501, seed=3, **options)
    code = f"import sys; sys.path.append({str(TESTS / 'helpers')!r}); {repeated(error)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert str(error.value) in done.stderr


SPACED = """
import sys

sys.path.append({tests!r})
from broken_draws import BiasedSigns


class Mine(BiasedSigns):
    pass
"""


@pytest.mark.usefixtures("few_other_sizes")
def test_a_class_with_a_path_is_repeated_by_a_command_that_runs(tmp_path, monkeypatch):
    spec = f"{tmp_path / 'my sketches.py'}:Mine"
    (tmp_path / "my sketches.py").write_text(SPACED.format(tests=str(TESTS / "helpers")))
    for mine in (spec, load_sketch(spec)):
        with pytest.raises(AssertionError) as error:
            assert_unbiased(mine, shape=(7, 5), m=20, draws=701, seed=3)
        command = repeated(error)
        assert command == f"sdi validate '{spec}' --shape 7,5 --m 20 --seed 3 --draws 701"
    monkeypatch.setattr(reports, "PROPERTIES", [p for p in PROPERTIES if p.name == "unbiased"])
    found = json.loads(CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"]).stdout)
    (finding,) = (f for f in found["findings"] if f["verdict"] == "fails")
    assert finding["property"] == "unbiased"
    assert f"{finding['wrong']}\n  smallest failing case: {finding['case']}" in str(error.value)


def test_a_class_made_in_a_function_is_repeated_by_its_name():
    class Mine(BiasedSigns):
        pass

    with pytest.raises(AssertionError) as error:
        assert_unbiased(Mine, draws=500)
    options = "shape=(8, 6), m=16, seed=0, draws=500, alpha=1e-06"
    assert repeated(error) == f"from sdi.testing import assert_unbiased; assert_unbiased(Mine, {options})"


@pytest.mark.usefixtures("few_other_sizes")
def test_a_claim_too_large_to_decide_fails_and_says_so():
    with pytest.raises(AssertionError, match="not decided that the mean of <S x, S y> over draws is <x, y>") as error:
        assert_unbiased(ThreefoldBehindAClaim, draws=100)
    assert "the claimed variance is 1e+09 |x|^2 |y|^2" in str(error.value)
    assert "claim no more in variance_factor()" in str(error.value)
    assert "a good sketch fails" not in str(error.value)
    assert "repeat with: from sdi.testing" in str(error.value)


def test_a_twin_that_differs_is_named_with_the_smallest_example():
    case = LoopedCase.make(CONFIG, n=3)
    sketch = SketchMap.draw(case.body, 5, sketch=TwinWithoutSigns)
    with pytest.raises(AssertionError, match="values: differ by ") as error:
        assert_backends_agree(case, sketch)
    assert "smallest failing case: LoopedCase(make_model(LoopedConfig(" in str(error.value)
    assert "(allowed 1e-09)" in str(error.value)
    assert "a right answer never fails it" in str(error.value)
    assert str(error.value).count("[[") == 3  # tokens, targets and mask of one example
    model, batch = case.torch()
    with pytest.raises(AssertionError, match=r"steps of 'core\.0\..*' and its whole gradient: differ") as error:
        assert_conserves(model, room("fast").token_cross_entropy, batch, loop=case.loop, sketch=sketch)
    assert "smallest failing case: example 0 of 3 alone, sketch " in str(error.value)
    assert "(m=5, seed=0, broken_applies:TwinWithoutSigns)" in str(error.value)


def test_one_example_that_fails_is_shown_as_the_batch():
    case = LoopedCase.make(CONFIG, n=1)
    model, batch = case.torch()
    sketch = SketchMap.draw(case.body, 5, sketch=TwinWithoutSigns)
    with pytest.raises(AssertionError, match="smallest failing case: the batch of 1"):
        assert_conserves(model, room("fast").token_cross_entropy, batch, loop=case.loop, sketch=sketch)
    assert_conserves(model, room("fast").token_cross_entropy, batch, loop=case.loop)
    assert_conserves(case.model, room("reference").token_cross_entropy, case.batch, loop=case.loop, backend="reference")


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [("sdi.testing", ("torch", "pytest")), ("sdi.validate, sdi.cli", ("hypothesis", "torch"))],
)
def test_an_import_loads_no_more_than_it_says(module, unwanted):
    code = f"import {module}, sys; sys.exit(str([m for m in {unwanted!r} if m in sys.modules] or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


# the plugin

STATISTICAL = """
import pytest
from sdi.testing.seed import current_seed

@pytest.mark.sdi_statistical(alpha=1e-6)
def test_one(sdi_seed):
    assert sdi_seed == current_seed()
    assert sdi_seed != 7

@pytest.mark.sdi_statistical(alpha=1e-6)
def test_two():
    pass

def test_exact():
    pass
"""


def test_a_failure_says_its_rate_and_how_to_repeat_it(pytester):
    pytester.makepyfile(STATISTICAL)
    said = pytester.runpytest_inprocess("-p", "sdi.testing.plugin", "--sdi-seed", "7")
    said.assert_outcomes(passed=2, failed=1)
    said.stdout.fnmatch_lines(
        [
            "sdi: seed 7 (--sdi-seed)",
            "*statistical: a right answer fails with probability at most 1e-06",
            "repeat with: pytest '*::test_one' --sdi-seed 7",
            "sdi: 2 statistical tests, seed 7; any of them fails by chance with probability at most 2e-06",
        ]
    )
    said = pytester.runpytest_inprocess("-p", "sdi.testing.plugin")
    said.assert_outcomes(passed=3)
    said.stdout.fnmatch_lines(["sdi: seed 0 (--sdi-seed)"])


def test_a_marker_without_a_rate_is_refused(pytester):
    pytester.makepyfile(STATISTICAL.replace("(alpha=1e-6)", ""))
    said = pytester.runpytest_inprocess("-p", "sdi.testing.plugin")
    assert said.ret != 0
    said.stderr.fnmatch_lines(["*sdi_statistical needs alpha=..., between 0 and 1"])
