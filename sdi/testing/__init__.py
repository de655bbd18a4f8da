"""For tests of sketches and of looped models: hypothesis strategies, and assertions that state their error rates.

Needs hypothesis (`pip install sdi-influence[testing]`) and no other tool; torch is loaded only where the fast backend
is asked for. With pytest, `-p sdi.testing.plugin` adds a marker and a seed: see docs/new-sketch.md.
"""

from sdi.testing.assertions import (
    assert_backends_agree,
    assert_conserves,
    assert_linear,
    assert_same_features,
    assert_unbiased,
    assert_within_bound,
)
from sdi.testing.strategies import (
    batches,
    gradients,
    looped_cases,
    looped_configs,
    seeds,
    shapes,
    sketch_maps,
    sketches,
    taus,
)
from sdi.validate.looped_case import LoopedCase, make_batch, make_model

__all__ = [
    "LoopedCase",
    "assert_backends_agree",
    "assert_conserves",
    "assert_linear",
    "assert_same_features",
    "assert_unbiased",
    "assert_within_bound",
    "batches",
    "gradients",
    "looped_cases",
    "looped_configs",
    "make_batch",
    "make_model",
    "seeds",
    "shapes",
    "sketch_maps",
    "sketches",
    "taus",
]
