"""LoopedConfig: sizes, names, and what is refused."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings

from sdi.inputs.looped_config import LoopedConfig
from sdi.testing import looped_configs

exact = settings(deadline=None, derandomize=True, database=None, max_examples=60)


def body_of(config: LoopedConfig) -> tuple[str, ...]:
    return config.loop().select(config.shapes())


def test_the_looped_gpt_has_the_papers_size():
    config = LoopedConfig.looped_gpt()
    body = body_of(config)
    assert config.parameter_count == 135_069_696
    assert len(body) == 25
    assert sum(prod(config.shapes()[name]) for name in body) == 29_491_200


def test_the_looped_gpt_at_the_size_of_nanochat():
    config = LoopedConfig.looped_gpt(d=1280, heads=10, vocab=65536, classes=65536)
    assert config.parameter_count == 328_335_360


def test_a_plain_block_has_the_size_of_its_formula():
    """4 d^2 + 4 d in attention, 8 d^2 + 5 d in the MLP, 2 d in each norm."""
    d = LoopedConfig().d
    block = 12 * d * d + 9 * d + 4 * d
    assert LoopedConfig(core=2).parameter_count - LoopedConfig(core=1).parameter_count == block
    assert LoopedConfig().parameter_count == 16 * d + block + 2 * d + 16 * d
    assert LoopedConfig(fused_qkv=True).parameter_count == LoopedConfig().parameter_count


@exact
@given(looped_configs())
def test_the_loop_names_parameters_that_exist_and_only_those_of_the_loop(config):
    shapes, loop = config.shapes(), config.loop()
    body = body_of(config)
    assert set(body) == {name for name in shapes if name.split(".")[0] in ("inject", "core", "loop_norm")}
    assert loop.step == "inject"
    assert loop.end == "coda"
    assert ("inject.weight" in body) == (config.injection == "concat")
    assert any(name.startswith("loop_norm.") for name in body) == (config.loop_norm and config.norm == "layer")


@exact
@given(looped_configs())
def test_every_shape_is_of_positive_integers_and_they_count_up(config):
    shapes = config.shapes()
    assert all(size >= 1 for shape in shapes.values() for size in shape)
    assert config.parameter_count == sum(prod(shape) for shape in shapes.values())
    assert shapes["head.weight"] == (config.classes, config.d)
    assert list(shapes)[-1] == ("head.bias" if config.head_bias else "head.weight")
    assert sorted({int(name.split(".")[1]) for name in shapes if name.startswith("core.")}) == list(range(config.core))


@exact
@given(looped_configs())
def test_a_config_comes_back_from_its_dict(config):
    assert LoopedConfig(**config.to_dict()) == config


@pytest.mark.parametrize("make", [LoopedConfig.looped_gpt, LoopedConfig.parity, LoopedConfig.sudoku])
def test_presets_take_changes(make):
    small = make(d=8, heads=2, vocab=5)
    assert (small.d, small.heads, small.vocab) == (8, 2, 5)
    assert small.core == make().core
    with pytest.raises(TypeError, match="nope"):
        make(nope=1)


BAD = [
    *(({name: 0}, f"{name} must be at least 1, got 0") for name in ("vocab", "classes", "d", "heads")),
    *(({name: 0}, f"{name} must be at least 1, got 0") for name in ("tau", "length", "core")),
    ({"tau": -3}, "tau must be at least 1, got -3"),
    ({"prelude": -1}, "prelude must be at least 0, got -1"),
    ({"coda": -1}, "coda must be at least 0, got -1"),
    ({"d": 10, "heads": 4}, "d must be a multiple of heads, got d=10 and heads=4"),
    ({"d": 6, "heads": 2, "rotary": True}, "rotary needs an even head width, got d / heads = 3"),
    ({"bptt": 0}, "bptt must be at least 1 or None, got 0"),
    ({"softcap": 0}, "softcap must be above 0 or None, got 0"),
    ({"softcap": -1.5}, "softcap must be above 0 or None, got -1.5"),
    ({"read_in": "nope"}, r"read_in must be one of \('embedding', 'onehot'\), got 'nope'"),
    ({"state": "nope"}, r"state must be one of \('embedding', 'zero'\), got 'nope'"),
    ({"injection": None}, r"injection must be one of \('none', 'add', 'concat'\), got None"),
    ({"norm": "batch"}, r"norm must be one of \('layer', 'rms'\), got 'batch'"),
    ({"activation": "relu"}, r"activation must be one of \('gelu', 'gelu_tanh', 'relu2'\), got 'relu'"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[str(changes) for changes, _ in BAD])
def test_a_bad_value_is_named_with_its_rule(changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        LoopedConfig(**changes)
