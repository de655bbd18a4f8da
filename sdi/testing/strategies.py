"""Hypothesis strategies: looped configurations, batches, ragged taus, gradients and sketches.

They are for properties that hold exactly. What holds only on average is for `assert_unbiased` and
`assert_within_bound`: an error rate means nothing when the seed is searched for a failure.

Sketches are made with `st.builds`, so that hypothesis shows a failing one as the call that draws it: shape, m and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy, composite

from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.load import SHIPPED, load_sketch
from sdi.sketch.sketch_map import SketchMap
from sdi.validate.looped_case import STEP_LIMIT, LoopedCase, make_batch, make_model
from sdi.validate.pairs import outer

Array = np.ndarray
Shape = tuple[int, ...]
OPTIONS: dict[str, tuple[Any, ...]] = {
    "prelude": (0, 1),
    "core": (1, 2),
    "coda": (0, 1),
    "read_in": ("embedding", "onehot"),
    "state": ("embedding", "zero"),
    "injection": ("none", "add", "concat"),
    "norm": ("layer", "rms"),
    "activation": ("gelu", "gelu_tanh", "relu2"),
    "positions": (False, True),
    "rotary": (False, True),
    "causal": (False, True),
    "bias": (False, True),
    "head_bias": (False, True),
    "fused_qkv": (False, True),
    "qk_norm": (False, True),
    "norm_in": (False, True),
    "loop_norm": (False, True),
    "norm_out": (False, True),
    "softcap": (None, 1.5),
    "bptt": (None, 1, 2),
}
WIDTHS = ((4, 1), (4, 2), (6, 2), (6, 3), (8, 2))  # d and heads
LENGTH = 5
KINDS = ("random", "rank one", "sparse", "constant", "whole")

seeds: SearchStrategy[int] = st.integers(0, 2**32 - 1)


@composite
def looped_configs(draw: DrawFn, /, **fixed: Any) -> LoopedConfig:
    """A small looped transformer with any of its options. fixed: options that stay.

    Returns a strategy of `LoopedConfig`.

    >>> from hypothesis import Phase, find, settings
    >>> first = settings(database=None, max_examples=1, phases=[Phase.generate])
    >>> find(looped_configs(tau=3), lambda config: True, settings=first).tau
    3
    """
    options = {name: draw(st.sampled_from(values)) for name, values in OPTIONS.items() if name not in fixed} | fixed
    d, heads = draw(st.sampled_from(WIDTHS))
    if (d // heads) % 2:
        options["rotary"] = False
    vocab, classes, tau = draw(st.integers(1, 4)), draw(st.integers(2, 4)), draw(st.integers(1, STEP_LIMIT))
    sizes = {"vocab": vocab, "classes": classes, "d": d, "heads": heads, "tau": tau, "length": LENGTH}
    return LoopedConfig(**{**sizes, **options})


@composite
def taus(draw: DrawFn, n: int, most: int = STEP_LIMIT) -> Array:
    """How many steps each of n examples takes: ragged, from 1 to `most`.

    n: how many examples. most: steps of each, at most. Returns a strategy of arrays (n,).

    >>> from hypothesis import Phase, find, settings
    >>> first = settings(database=None, max_examples=1, phases=[Phase.generate])
    >>> find(taus(3), lambda tau: True, settings=first).shape
    (3,)
    """
    return np.array(draw(st.lists(st.integers(1, most), min_size=n, max_size=n)), dtype=np.int64)


@composite
def batches(draw: DrawFn, config: LoopedConfig, most: int = 3) -> dict[str, Array]:
    """Up to `most` examples for a config: ragged steps, early read-outs, masked tokens, or any of these left out.

    config: of the model. most: examples. Returns a strategy of dicts of arrays: "tokens", "targets" (n, length).

    >>> from hypothesis import Phase, find, settings
    >>> first = settings(database=None, max_examples=1, phases=[Phase.generate])
    >>> find(batches(LoopedConfig()), lambda batch: True, settings=first)["tokens"].ndim
    2
    """
    n, length = draw(st.integers(1, most)), draw(st.integers(1, config.length))
    batch = make_batch(config, draw(seeds), n=n, length=length)
    batch["tau"] = draw(taus(n))
    batch["readout"] = np.array([draw(st.integers(1, int(tau))) for tau in batch["tau"]], dtype=np.int64)
    left_out = draw(st.sampled_from([(), ("mask",), ("readout",), ("tau", "readout")]))
    return {name: array for name, array in batch.items() if name not in left_out}


@composite
def looped_cases(draw: DrawFn, /, **fixed: Any) -> LoopedCase:
    """A model with random weights and a batch, for both backends. fixed: options of `LoopedConfig` that stay.

    Returns a strategy of `LoopedCase`.

    >>> from hypothesis import Phase, find, settings
    >>> first = settings(database=None, max_examples=1, phases=[Phase.generate])
    >>> find(looped_cases(tau=2), lambda case: True, settings=first).config.tau
    2
    """
    config = draw(looped_configs(**fixed))
    seed = draw(seeds)
    return LoopedCase(make_model(config, seed), draw(batches(config)), seed)


@composite
def shapes(draw: DrawFn, most: int = 6) -> Shape:
    """The shape of a vector or a matrix, each axis from 1 to `most`.

    most: the largest side. Returns a strategy of tuples of one or two integers.

    >>> from hypothesis import Phase, find, settings
    >>> first = settings(database=None, max_examples=1, phases=[Phase.generate])
    >>> len(find(shapes(), lambda shape: True, settings=first)) in (1, 2)
    True
    """
    return tuple(draw(st.lists(st.integers(1, most), min_size=1, max_size=2)))


@composite
def gradients(draw: DrawFn, shape: Shape, lead: Shape = (), kinds: Sequence[str] = KINDS) -> Array:
    """Arrays (*lead, *shape) of the kinds that sketches are sensitive to; "whole" are integers.

    shape: of the parameter. lead: axes before it. kinds: some of "random", "rank one", "sparse", "constant", "whole".
    Returns a strategy of arrays.
    """
    kind, rng = draw(st.sampled_from(kinds)), np.random.default_rng(draw(seeds))
    whole = (*lead, *shape)
    if kind == "whole":
        return rng.integers(-99, 100, size=whole)
    if kind == "constant":
        return np.full(whole, draw(st.sampled_from([0.0, 1.0, -0.3, 1e6, 1e-6])))
    if kind == "rank one":
        count = int(np.prod(lead))
        return np.reshape([outer(shape, rng) for _ in range(count)], whole)
    x = rng.standard_normal(whole)
    return np.where(rng.random(whole) < 0.2, x, 0.0) if kind == "sparse" else x


@composite
def sketches(draw: DrawFn, names: Sequence[str | type] = tuple(SHIPPED), shape: Shape | None = None) -> Any:
    """A sketch, drawn for a small shape. names: classes or their names, by default all that ship.

    shape: of the parameter; by default any small one.
    Returns a strategy of sketches.
    """
    chosen: Any = load_sketch(draw(st.sampled_from(tuple(names))))
    of = draw(shapes()) if shape is None else shape
    try:
        name = st.sampled_from(["w", "core.0.b"])
        return draw(st.builds(_named(chosen), st.just(of), m=st.integers(1, 9), seed=seeds, name=name))
    except ValueError:
        reject()  # a width that the class does not take


@composite
def sketch_maps(draw: DrawFn, of: dict[str, Shape], names: Sequence[str | type] = tuple(SHIPPED)) -> SketchMap:
    """A SketchMap of one class.

    of: the shape of each parameter, by name. names: as in `sketches`. Returns a strategy of `SketchMap`.

    >>> from hypothesis import Phase, find, settings
    >>> first = settings(database=None, max_examples=1, phases=[Phase.generate])
    >>> find(sketch_maps({"w": (3, 2)}), lambda map: True, settings=first).shapes
    {'w': (3, 2)}
    """
    spec = draw(st.sampled_from(tuple(names)))
    return draw(
        st.builds(_named(SketchMap), st.just(of), m=st.integers(1, 20), seed=st.integers(0, 99), sketch=st.just(spec))
    )


def _named(cls: Any) -> Callable[..., Any]:
    """cls.draw, under a name that says whose it is when hypothesis prints the call."""

    def draw(*arguments: Any, **options: Any) -> Any:
        return cls.draw(*arguments, **options)

    draw.__name__ = draw.__qualname__ = f"{cls.__name__}.draw"
    return draw
