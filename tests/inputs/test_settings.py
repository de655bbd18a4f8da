"""Settings: checked once, and shown where they are taken."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

import pytest

import sdi
from sdi.inputs.settings import CHOICES, NAMES, Settings, SettingsArguments


def test_type_checkers_are_told_of_the_same_settings() -> None:
    told, true = get_type_hints(SettingsArguments), get_type_hints(Settings)
    assert told == {f.name: true[f.name] for f in fields(Settings)}


def test_every_choice_is_a_literal() -> None:
    hints = get_type_hints(Settings)
    assert {name: get_args(hints[name]) for name in CHOICES} == CHOICES


def test_every_parameter_of_attribute_is_described_and_every_setting_shows_its_default() -> None:
    parameters = inspect.signature(sdi.attribute).parameters
    assert set(NAMES) < set(parameters)
    assert {name: parameters[name].default for name in NAMES} == vars(Settings())
    text = inspect.getdoc(sdi.attribute)
    assert text is not None
    described = {name for names in re.findall(r"^([a-z_, ]+): ", text, flags=re.M) for name in names.split(", ")}
    assert described == set(parameters)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"m": "8"}, TypeError, "m must be an integer, got '8'"),
        ({"m": 0}, ValueError, "m must be at least 1, got 0"),
        ({"m": {"w": 0}}, ValueError, "m of 'w' must be at least 1, got 0"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"repeats": 0}, ValueError, "repeats must be at least 1, got 0"),
        ({"shard": True}, TypeError, "shard must be an integer, got True"),
        ({"budget": 9}, ValueError, "budget must be at least 1 MiB"),
        ({"spread": 1}, TypeError, "spread must be true or false, got 1"),
        ({"spread": True, "m": None}, ValueError, "m must be one width where spread"),
        ({"spread": True, "backend": "exact"}, ValueError, "spread must be false with backend 'exact'"),
        ({"sketch": {}}, TypeError, "sketch must be a name"),
        *(({name: "nope"}, ValueError, f"{name} must be one of") for name in CHOICES),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_its_name(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Settings(**changes)
    with pytest.raises(error, match=re.escape(message)):
        replace(Settings(), **changes)
    with pytest.raises(error, match=re.escape(message)):  # before anything else is looked at
        sdi.attribute(None, loss=None, loop=None, checkpoints=[], train=[], query=[], **changes)  # type: ignore


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'repeat'; did you mean 'repeats'"):
        sdi.attribute(None, loss=None, loop=None, checkpoints=[], train=[], query=[], repeat=2)  # type: ignore
