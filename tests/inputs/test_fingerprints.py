"""What features depend on is part of a store: settings, model and loss; the rest shows in a row that is made again."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import (
    CONFIG,
    World,
    featurized,
    files,
    filled,
    make_model,
    world,
)
from paths import TESTS

from sdi import Loop, StoreError
from sdi.fast import token_cross_entropy
from sdi.inputs.fingerprint import loss_fingerprint, loss_parts, model_fingerprint

__all__ = ["filled", "world"]


def loss_twice(model: Any, batch: Any) -> Any:
    return 2 * token_cross_entropy(model, batch)


def scaled_loss(scale: float, model: Any, batch: Any) -> Any:
    return scale * token_cross_entropy(model, batch)


def other_tau(world: World) -> None:
    model = make_model(config=replace(CONFIG, tau=4))
    model.load_state_dict(world.model.state_dict())
    world.model = model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"m": 64}, "sketch.recipe.m: 32 in the store, 64 now"),
        ({"m": None}, "sketch.recipe: {.*} in the store, None now"),
        ({"seed": 3}, "sketch.recipe.seed: 0 in the store, 3 now"),
        ({"family": "polynomial"}, "sketch.recipe.family: 'table' in the store, 'polynomial' now"),
        ({"loss": loss_twice}, "config.loss: 'token_cross_entropy .*' in the store, 'loss_twice .*' now"),
        ({"loop": Loop("core", "inject")}, "config.loop.end: 'coda' in the store, None now"),
        ({"loop": Loop("core.0.mlp", "inject")}, r"config.loop.body: \['core'\] in the store, \['core.0.mlp'\] now"),
        ({"dtype": "float32"}, "config.dtype: 'float64' in the store, 'float32' now"),
        ({"mode": "train"}, "config.steps.train: False in the store, True now"),
        (other_tau, "config.model.config.tau: 3 in the store, 4 now"),
        (lambda world: world.model.float(), "config.model.parts: '.*' in the store, '.*' now"),
    ],
)
def test_another_config_is_refused_with_the_difference_shown(filled: World, change: Any, line: str) -> None:
    before = files(filled.store)
    if callable(change):
        change(filled)
        change = {}
    with pytest.raises(StoreError, match=rf"was made with other settings; use them, or a new folder:\n(.*\n)*  {line}"):
        filled.attribute(store=filled.store, **change)
    assert files(filled.store) == before


@pytest.mark.slow
def test_a_loop_of_modules_is_the_loop_of_their_names(filled: World) -> None:
    model = filled.model
    with featurized() as calls:
        filled.attribute(store=filled.store, loop=Loop([model.core], model.inject, model.coda))
    assert not calls


def test_what_a_loss_holds_is_part_of_it() -> None:
    def hold(scale: float) -> Any:
        return lambda model, batch: scale * token_cross_entropy(model, batch)

    losses = [loss_twice, scaled_loss, partial(scaled_loss, 2.0), partial(scaled_loss, 3.0), hold(2.0), hold(3.0)]
    losses += [lambda model, batch, k=1: k, lambda model, batch, k=2: k, lambda model, batch: 3 in {"a", "b"}]
    assert len({loss_fingerprint(loss) for loss in losses}) == len(losses)
    assert loss_fingerprint(hold(2.0)) == loss_fingerprint(hold(2.0))


def loss_with_a_set(model: Any, batch: Any) -> Any:
    return "c" in {"a", "b", "c", "d"}


@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process() -> None:
    code = "from test_fingerprints import loss_with_a_set, loss_fingerprint, model_fingerprint, make_model"
    code += ", Trainer, with_attribute, Settings"
    code += "; print(loss_fingerprint(loss_with_a_set)); print(model_fingerprint(make_model()))"
    code += "; print(loss_fingerprint(Trainer({'x', 'y', 'z'}).loss), model_fingerprint(with_attribute(Settings())))"
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(TESTS / "helpers")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TESTS / "inputs", env=env, capture_output=True, text=True, check=True
    )
    wanted = f"{loss_fingerprint(loss_with_a_set)}\n{model_fingerprint(make_model())}\n"
    wanted += f"{loss_fingerprint(Trainer({'x', 'y', 'z'}).loss)} {model_fingerprint(with_attribute(Settings()))}\n"
    assert done.stdout == wanted


@dataclass
class Settings:
    tau: int = 4
    act: Any = torch.tanh


class Named:
    def __init__(self, tau: int) -> None:
        self.tau = tau
        self.deeper = {"rates": [Settings(tau)]}


def with_attribute(value: Any) -> Any:
    model = make_model()
    model.core[0].attn.setting = value
    return model


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tau": 4}, {"tau": 7}),
        ({"a": {"b": [1, {"c": 4}]}}, {"a": {"b": [1, {"c": 7}]}}),
        (Settings(4), Settings(7)),
        (Settings(), Settings(act=torch.relu)),
        (SimpleNamespace(tau=4), SimpleNamespace(tau=7)),
        (Named(4), Named(7)),
        (torch.tanh, torch.relu),
        (torch.nn.functional.silu, torch.nn.functional.gelu),
        (lambda x: x, lambda x: 2 * x),
        (partial(torch.clamp, min=0), partial(torch.clamp, min=-1)),
        (torch.float32, torch.bfloat16),
        ([Settings(4)], [Settings(7)]),
        ({1, 2}, {1, 3}),
        (np.int64(4), np.int64(7)),
    ],
)
def test_what_stands_in_a_models_attributes_is_part_of_it(one: Any, other: Any) -> None:
    first, again, second = (model_fingerprint(with_attribute(v)) for v in (one, deepcopy(one), other))
    assert first == again
    assert first != second
    json.dumps(first)


@pytest.mark.slow
def test_a_changed_config_is_named_by_its_key(filled: World) -> None:
    filled.model.setting = {"loops": {"tau": 4}}
    filled.attribute(store=filled.folder / "other")
    filled.model.setting["loops"]["tau"] = 7
    with pytest.raises(StoreError, match=r"config.model.setting.loops.tau: 4 in the store, 7 now"):
        filled.attribute(store=filled.folder / "other")


def test_what_changes_from_process_to_process_is_not_part_of_a_model() -> None:
    class Slots:
        __slots__ = ()

    values = [lambda: object(), lambda: logging.getLogger("x"), lambda: threading.Lock(), Slots, lambda: iter([])]
    for value in values:
        assert model_fingerprint(with_attribute(value())) == model_fingerprint(with_attribute(value()))
    logger = logging.getLogger("y")
    before = model_fingerprint(with_attribute(logger))
    logger.setLevel("ERROR")
    logger.addHandler(logging.NullHandler())
    assert model_fingerprint(with_attribute(logger)) == before
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert model_fingerprint(with_attribute(loop)) == model_fingerprint(with_attribute(loop))


BETA: Any = 1.0


def scaled_by_beta(x: Any) -> Any:
    return BETA * x


def loss_of_a_constant(model: Any, batch: Any) -> Any:
    return BETA * token_cross_entropy(model, batch)


def loss_of_a_helper(model: Any, batch: Any) -> Any:
    return scaled_by_beta(token_cross_entropy(model, batch))


def loss_of_an_inner_function(model: Any, batch: Any) -> Any:
    return [BETA * x for x in token_cross_entropy(model, batch)]


@pytest.mark.parametrize("loss", [loss_of_a_constant, loss_of_a_helper, loss_of_an_inner_function])
@pytest.mark.parametrize(("one", "other"), [(1.0, 10.0), ("a", "b"), ((1, 2), (1, 3)), ({"k": [1]}, {"k": [2]})])
def test_the_constants_that_a_loss_reads_are_part_of_it(
    monkeypatch: pytest.MonkeyPatch, loss: Any, one: Any, other: Any
) -> None:
    found = []
    for value in (one, deepcopy(one), other):
        monkeypatch.setitem(globals(), "BETA", value)
        found.append(loss_fingerprint(loss))
    assert found[0] == found[1] != found[2]
    before = loss_fingerprint(loss_twice)
    monkeypatch.setitem(globals(), "BETA", 3)
    assert loss_fingerprint(loss_twice) == before  # which does not read it


class Trainer:
    kind = 1

    def __init__(self, beta: Any, started: float = 0.0) -> None:
        self.beta, self._gamma, self.started = beta, beta, started

    def loss(self, model: Any, batch: Any) -> Any:
        return self.beta * token_cross_entropy(model, batch)

    def private(self, model: Any, batch: Any) -> Any:
        return self._scaled(token_cross_entropy(model, batch))

    def _scaled(self, x: Any) -> Any:
        return self._gamma * x

    def __call__(self, model: Any, batch: Any) -> Any:
        return self._scaled(1)


class ModuleLoss(torch.nn.Module):
    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.ce = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)

    def forward(self, model: Any, batch: Any) -> Any:
        return self.ce(model, batch)


def keyword(weight: Any) -> Any:
    def loss(model: Any, batch: Any, *, weight: Any = weight) -> Any:
        return weight

    return loss


@pytest.mark.parametrize(
    "make",
    [
        keyword,
        lambda beta: Trainer(beta).loss,
        lambda beta: Trainer(beta).private,
        Trainer,
        lambda beta: partial(Trainer(beta).loss),
        lambda beta: partial(scaled_loss, scale={"a": beta}),
        lambda beta: ModuleLoss(beta / 10),
        lambda beta: torch.nn.CrossEntropyLoss(label_smoothing=beta / 10),
        lambda beta: lambda model, batch: torch.tensor([beta]) if model else Trainer(beta),
        lambda beta: partial(scaled_loss, torch.tensor([1.0, beta])),
    ],
)
def test_what_a_loss_reads_of_its_object_and_keywords_is_part_of_it(make: Any) -> None:
    assert loss_fingerprint(make(1.0)) == loss_fingerprint(make(1.0)) != loss_fingerprint(make(10.0 / 2))


def test_what_a_method_does_not_read_is_not_part_of_it() -> None:
    assert loss_fingerprint(Trainer(1.0, 5.0).loss) == loss_fingerprint(Trainer(1.0, 6.0).loss)


def test_a_docstring_is_not_part_of_a_loss() -> None:
    def compiled(doc: str, scale: str = "'a'") -> Any:
        scope: dict[str, Any] = {}
        inner = f"    def inner(x):\n        {doc}\n        return x\n"
        exec(f"def loss(model, batch):\n    {doc}\n{inner}    return inner(model)(batch, {scale}, None)\n", scope)
        return loss_fingerprint(scope["loss"])

    assert compiled('"one"') == compiled('"another"')
    assert compiled('"one"') != compiled('"one"', "'b'")


def test_training_mode_and_private_state_are_not_part_of_a_model() -> None:
    model = make_model()
    before = model_fingerprint(model)
    model.eval()._cache = 3
    assert model_fingerprint(model) == before
    model.core[0].attn.scale = 2.0
    assert model_fingerprint(model) != before


def test_a_changed_loss_is_refused_by_the_name_that_changed(world: World) -> None:
    def make(scale: float, beta: float = 1.0) -> Any:
        def loss(model: Any, batch: Any, power: float = beta) -> Any:
            return scale * token_cross_entropy(model, batch) ** power

        return loss

    world.attribute(store=world.store, loss=make(2.0))
    world.attribute(store=world.store, loss=make(2.0))
    with pytest.raises(StoreError, match=r"folder:\n  loss, closure scale: 2.0 in the store, 3.0 now$"):
        world.attribute(store=world.store, loss=make(3.0))
    with pytest.raises(StoreError, match=r"\n  loss, default of power: 1.0 in the store, 2.0 now$"):
        world.attribute(store=world.store, loss=make(2.0, 2.0))


@pytest.mark.parametrize("loss", [loss_of_a_constant, loss_of_a_helper])
def test_the_global_that_changed_is_named(monkeypatch: pytest.MonkeyPatch, loss: Any) -> None:
    before = loss_parts(loss)
    monkeypatch.setitem(loss.__globals__, "BETA", 17)
    changed = {name for name, value in loss_parts(loss).items() if before[name] != value}
    assert len(changed) == 1
    assert changed.pop().startswith("global ")


def test_what_an_object_holds_is_named() -> None:
    one, other = loss_parts(Trainer(1.0).loss), loss_parts(Trainer(2.0).loss)
    assert {name for name in one if one[name] != other[name]} == {"attribute beta"}
    one, other = loss_parts(partial(scaled_loss, 2.0)), loss_parts(partial(scaled_loss, 3.0))
    assert {name for name in one if one[name] != other[name]} == {"argument 1"}


def test_a_loss_may_have_an_id_of_its_own(world: World) -> None:
    world.attribute(store=world.store, loss=token_cross_entropy, loss_id="mine, 1", audit="off")
    same = world.attribute(store=world.store, loss=lambda m, b: token_cross_entropy(m, b), loss_id="mine, 1")
    assert same.info["settings"]["mode"] == "query"
    with pytest.raises(StoreError, match=r"config.loss: \"id 'mine, 1'\" in the store, \"id 'mine, 2'\" now$"):
        world.attribute(store=world.store, loss_id="mine, 2")
    with pytest.raises(TypeError, match=r"^loss_id must be a text that is not empty, got ''$"):
        world.attribute(loss_id="")
