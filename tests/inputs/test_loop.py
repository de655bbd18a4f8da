"""Loop: which parameters are the body."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.errors import CoverageError
from sdi.loop import Loop

exact = settings(deadline=None, derandomize=True, database=None, max_examples=100)
NAMES = ("read_in.weight", "core.0.weight", "core.0.bias", "core2.weight", "core.1.weight", "scale", "head.weight")
dotted = st.lists(st.sampled_from(("a", "b", "ab", "0")), min_size=1, max_size=3).map(".".join)


class ModuleLike:
    """What a ModuleDict is to Python: an iterable of its keys that has parameters."""

    def __iter__(self):
        return iter(["not", "the", "body"])

    def named_parameters(self):
        return iter(())


@pytest.mark.parametrize(
    ("body", "selected"),
    [
        (["core"], ("core.0.weight", "core.0.bias", "core.1.weight")),
        (["core.0"], ("core.0.weight", "core.0.bias")),
        (["core.0.bias"], ("core.0.bias",)),
        (["core2"], ("core2.weight",)),
        (["scale"], ("scale",)),
        (["head", "core.1", "read_in"], ("read_in.weight", "core.1.weight", "head.weight")),
        (["core", "core.0", "core.0.bias"], ("core.0.weight", "core.0.bias", "core.1.weight")),
    ],
)
def test_an_entry_selects_a_parameter_or_all_below_a_module_in_the_models_order(body, selected):
    assert Loop(body=body, step="core").select(NAMES) == selected


def test_a_prefix_that_ends_within_a_name_does_not_match():
    assert "core2.weight" not in Loop(body="core", step="core").select(NAMES)
    with pytest.raises(CoverageError):
        Loop(body="cor", step="core").select(NAMES)


@exact
@given(st.lists(dotted, min_size=1, max_size=6, unique=True), dotted)
def test_select_is_a_match_of_whole_parts(names, entry):
    parts = entry.split(".")
    wanted = tuple(name for name in names if name.split(".")[: len(parts)] == parts)
    if wanted:
        assert Loop(body=[entry], step="s").select(iter(names)) == wanted
    else:
        with pytest.raises(CoverageError, match=f"body entry '{entry}' matches no parameter of the model"):
            Loop(body=[entry], step="s").select(names)


@pytest.mark.parametrize(
    ("entry", "suggestion"),
    [("coer", "core"), ("core.0.wieght", "core.0.weight"), ("core.2", "core.0"), ("haed", "head")],
)
def test_an_unknown_entry_is_refused_with_a_suggestion(entry, suggestion):
    with pytest.raises(
        CoverageError, match=rf"^body entry '{entry}' matches no .*; did you mean .*'{suggestion}'.*\?$"
    ):
        Loop(body=["head", entry], step="core").select(NAMES)


def test_an_entry_unlike_any_name_is_refused_with_the_outermost_names():
    first = r"'read_in', 'core', 'core2', 'scale', 'head', \.\.\."
    with pytest.raises(CoverageError, match=rf"^body entry 'zzz' matches no .*; the first are {first}$"):
        Loop(body="zzz", step="core").select(NAMES)


def test_a_string_is_one_entry():
    assert Loop(body="core", step="core").body == ("core",)
    assert Loop(body=("core", "head"), step="core").body == ("core", "head")
    assert Loop(body=(name for name in ["core"]), step="core").body == ("core",)


def test_a_module_is_one_entry_even_if_it_is_iterable():
    module, plain = ModuleLike(), object()
    assert Loop(body=module, step="core").body == (module,)
    assert Loop(body=plain, step="core").body == (plain,)
    assert Loop(body=[module, "head"], step="core").body == (module, "head")


def test_a_module_cannot_be_selected_by_name():
    with pytest.raises(TypeError, match=r"body entry <.*ModuleLike.*> must be a name here"):
        Loop(body=ModuleLike(), step="core").select(NAMES)


@pytest.mark.parametrize("body", [[], (), iter(())])
def test_an_empty_body_is_refused(body):
    with pytest.raises(ValueError, match="body must name at least one module or parameter, got an empty list"):
        Loop(body=body, step="core")


@pytest.mark.parametrize("step", [None, ""])
def test_a_loop_without_a_step_is_refused(step):
    with pytest.raises(ValueError, match=f"step must name the module whose call begins a step, got {step!r}"):
        Loop(body="core", step=step)


def test_a_loop_is_a_frozen_value():
    loop = Loop(body=["core"], step="core")
    assert loop == Loop(body="core", step="core", end=None)
    assert hash(loop) == hash(Loop(body="core", step="core"))
    with pytest.raises(FrozenInstanceError):
        loop.step = "head"


@pytest.mark.parametrize("half", [{"cycle": "high"}, {"inner": 3}, {"inner": 3, "calls": "restart"}])
def test_a_loop_within_a_loop_needs_what_begins_a_cycle_and_how_long_it_may_be(half):
    with pytest.raises(ValueError, match=r"needs both what begins a cycle .* and how many steps it may have"):
        Loop(body="low", step="low", **half)


def test_inner_is_a_number_of_steps():
    with pytest.raises(ValueError, match="inner must be at least 1, got 0"):
        Loop(body="low", step="low", cycle="high", inner=0)
    with pytest.raises(TypeError, match=r"inner must be an integer, got 2\.5"):
        Loop(body="low", step="low", cycle="high", inner=2.5)
