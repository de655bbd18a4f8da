"""Bad input to the core, one row each: the call, the error's type, and the argument, value and rule it names."""

from __future__ import annotations

import numpy as np
import pytest

import sdi
from sdi.errors import CoverageError, NonFiniteError, SketchMismatch, nearest
from sdi.loop import Loop
from sdi.scores import products as scores
from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.sketch_map import Block, SketchMap
from sdi.store.features import Features

SHAPES = {"core.w": (9, 9)}
BLOCKS = (Block("core.w", (2,), 0, 2),)

BAD_M = [
    (0, ValueError, r"^m must be at least 1, got 0$"),
    (-1, ValueError, r"^m must be at least 1, got -1$"),
    (1.5, TypeError, r"^m must be an integer, got 1\.5$"),
    (True, TypeError, r"^m must be an integer, got True$"),
    ("8", TypeError, r"^m must be an integer, got '8'$"),
    (None, TypeError, r"^m must be an integer, got None$"),
    (np.float64(8), TypeError, r"^m must be an integer, got np\.float64\(8\.0\)$"),
    (np.True_, TypeError, r"^m must be an integer, got np\.True_$"),
]
TAKES_M = {
    "CountSketch": lambda m: CountSketch(h=np.array([0]), s=np.array([1]), m=m),
    "CountSketch.draw": lambda m: CountSketch.draw((5,), m, name="w"),
    "CountSketch.draw polynomial": lambda m: CountSketch.draw((5,), m, name="w", family="polynomial"),
    "TensorSketch.draw": lambda m: TensorSketch.draw((5, 3), m, name="w"),
    "SketchMap.draw": lambda m: SketchMap.draw(SHAPES, m=m),
    "SketchMap.draw polynomial": lambda m: SketchMap.draw(SHAPES, m=m, family="polynomial"),
    "count_sketch_variance": lambda m: bounds.count_sketch_variance(np.ones(2), np.ones(2), m),
    "tensor_sketch_variance": lambda m: bounds.tensor_sketch_variance(np.ones((2, 2)), np.ones((2, 2)), m),
    "tensor_sketch_factor": lambda m: bounds.tensor_sketch_factor(m),
}


@pytest.mark.parametrize("taker", TAKES_M)
@pytest.mark.parametrize(("m", "error", "message"), BAD_M, ids=[repr(m) for m, *_ in BAD_M])
def test_whoever_takes_an_m_refuses_one_that_is_no_positive_integer(taker, m, error, message):
    with pytest.raises(error, match=message):
        TAKES_M[taker](m)


DRAWS = {
    "CountSketch": lambda m, family: CountSketch.draw((9,), m, name="w", family=family),
    "TensorSketch": lambda m, family: TensorSketch.draw((9, 9), m, name="w", family=family),
    "SketchMap": lambda m, family: SketchMap.draw(SHAPES, m=m, family=family),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("m", "remedy"), [(3, 4), (5, 8), (6, 8), (12, 16), (2047, 2048)])
def test_the_polynomial_family_refuses_an_m_that_is_no_power_of_two(draw, m, remedy):
    message = rf"^m must be a power of two for family='polynomial', got {m}: .*; use m={remedy} or family='table'$"
    with pytest.raises(ValueError, match=message):
        DRAWS[draw](m, "polynomial")
    DRAWS[draw](m, "table")
    DRAWS[draw](remedy, "polynomial")


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("family", ["nope", "", None, "Table"])
def test_an_unknown_family_is_refused(draw, family):
    with pytest.raises(ValueError, match=rf"^family must be one of \('table', 'polynomial'\), got {family!r}$"):
        DRAWS[draw](4, family)


def features(values=None, **changes) -> Features:
    values = np.ones((1, 3, 2)) if values is None else values
    return Features(**{"values": values, "tau": [3], "blocks": BLOCKS, "sketch": "3f2a", **changes})


NOT_FINITE = np.ones((1, 3, 2))
NOT_FINITE[0, 1, 0] = np.inf

TABLE = {
    "wrong shape, map": (
        lambda: SketchMap.draw(SHAPES, 8).apply({"core.w": np.ones((9, 8))}),
        SketchMismatch,
        r"parameter 'core\.w' has shape \(9, 9\), got an array of shape \(9, 8\)",
    ),
    "wrong shape, sketch": (
        lambda: TensorSketch.draw((9, 9), 8, name="w").apply(np.ones((8, 9))),
        SketchMismatch,
        r"TensorSketch is for arrays of shape \(\.\.\., 9, 9\), got \(8, 9\)",
    ),
    "wrong parameters": (
        lambda: SketchMap.draw(SHAPES, 8).apply({"core.v": np.ones((9, 9))}),
        SketchMismatch,
        r"for parameters \['core\.w'\]; these are on one side only: \['core\.v', 'core\.w'\]",
    ),
    "mismatched sketches": (
        lambda: scores.sdi(features(), features(sketch="91c0")),
        SketchMismatch,
        "train features use sketch 3f2a, query features 91c0; featurize both with one sketch",
    ),
    "mismatched parameters": (
        lambda: scores.tracin(features(), features(blocks=(Block("core.v", (2,), 0, 2),))),
        SketchMismatch,
        "different parameters; featurize both with one Loop",
    ),
    "not finite": (
        lambda: features(NOT_FINITE),
        NonFiniteError,
        r"the gradient of 'core\.w' at step 2 of example '0' is inf; check the loss and the model's weights",
    ),
    "tau = 0": (
        lambda: features(tau=[0]),
        ValueError,
        r"tau must hold one number of steps of at least 1 for each of the 1 examples, got \[0\]",
    ),
    "config's tau = 0": (lambda: sdi.LoopedConfig(tau=0), ValueError, "tau must be at least 1, got 0"),
    "unknown body parameter": (
        lambda: Loop(body="core.w", step="core").select(["core.v", "head.weight"]),
        CoverageError,
        r"body entry 'core\.w' matches no parameter of the model; did you mean 'core\.v'",
    ),
    "unknown parameter of features": (
        lambda: features().block("core.ww"),
        CoverageError,
        r"no parameter 'core\.ww' in these features; did you mean 'core\.w'\?",
    ),
    "unknown backend": (lambda: sdi.backend("Fast"), ValueError, "backend must be one of .* got 'Fast'; did you mean"),
}


@pytest.mark.parametrize(("call", "error", "message"), TABLE.values(), ids=TABLE.keys())
def test_bad_input_is_refused_with_argument_value_and_rule(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("error", [SketchMismatch, CoverageError, NonFiniteError])
def test_what_a_user_got_wrong_is_a_value_error(error):
    assert issubclass(error, ValueError)


def test_a_failed_audit_is_not_the_users_fault():
    assert issubclass(sdi.AuditError, RuntimeError)
    assert not issubclass(sdi.AuditError, ValueError)


def test_the_nearest_names_are_suggested_or_none():
    assert nearest("coer", ["head", "core"]) == "; did you mean 'core'?"
    assert nearest("zzz", ["head", "core"]) == ""
    assert nearest("w", []) == ""
    assert nearest("core", [f"core{i}" for i in range(9)]).count("'core") == 3
