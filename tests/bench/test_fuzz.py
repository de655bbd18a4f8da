"""sdi-bench fuzz: a hundred drawn models are right or refused; the oracle and the shrinker are tested, too."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import sdi
from sdi.bench import cli
from sdi.bench.commands.fuzz import BARS, FuzzWork, make_record
from sdi.bench.fuzz.check import Checked, Outcome, check, make_batches, namespace
from sdi.bench.fuzz.description import Description
from sdi.bench.fuzz.draw import EXTRAS, STEPS, draw, has_feature, is_valid
from sdi.bench.fuzz.findings import Finding, by_group
from sdi.bench.fuzz.mixing import MIXING
from sdi.bench.fuzz.script import write_script
from sdi.bench.fuzz.shrink import shrink
from sdi.bench.fuzz.styles import STYLES
from sdi.bench.fuzz.untied import body_parameters, examples, scores, step_gradients
from sdi.bench.harness.record import Record
from sdi.fast.featurizer import Featurizer

SEED, MODELS, BLOCKS = 7, 100, 10
WORDS = [Description(extras=("end", "before"), step="norm"), Description(cells=(("gru", "whole"),), extras=("hook",))]


def drawn(count: int = 300) -> list[Description]:
    return [draw(SEED, index) for index in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_drawn_model_is_right_or_refused_in_both_memory_modes(block: int) -> None:
    for index in range(block, MODELS, BLOCKS):
        one = draw(SEED, index)
        assert not check(one).faults, (index, check(one).faults, one)


def test_what_is_drawn_follows_from_seed_and_index_and_survives_json() -> None:
    for index in range(20):
        one = draw(SEED, index)
        assert one == draw(SEED, index)
        assert one == Description.from_json(one.to_json())
        assert is_valid(one)
    assert len({draw(SEED, index) for index in range(20)}) == 20
    assert draw(SEED + 1, 0) != draw(SEED, 0)


@pytest.mark.slow
def test_every_feature_is_drawn() -> None:
    found = {feature.partition(": ")[2] for one in drawn(3000) for feature in one.features}
    assert found >= {*EXTRAS, *STEPS, *STYLES, *MIXING}


@pytest.mark.slow
def test_only_models_with_a_feature_are_drawn_on_request() -> None:
    assert all(has_feature(draw(SEED, index, "extra: halting"), "halting") for index in range(5))
    with pytest.raises(ValueError, match="no-such"):
        draw(SEED, 0, "no-such")


def oracle_gradients(one: Description) -> tuple[Any, Any, dict[str, Any], Any]:
    text = namespace(one)
    text["checkpoint"] = lambda f, *args, use_reentrant: f(*args)
    batch = make_batches(one, text)["train"][0]
    example = examples(batch, text["SHARED"])[0]
    model = text["make_model"](one.seed)
    return *step_gradients(model, text["loss"], text["LOOP"]["body"], example), text, example


@pytest.mark.parametrize("index", range(40))
def test_the_oracles_steps_sum_to_autograds_gradient(index: int) -> None:
    phi, outside, text, example = oracle_gradients(draw(SEED, index))
    model = text["make_model"](draw(SEED, index).seed)
    body = body_parameters(model, text["LOOP"]["body"])
    model.requires_grad_(True)
    grads = torch.autograd.grad(text["loss"](model, example).sum(), list(body.values()), allow_unused=True)
    whole = [torch.zeros_like(p) if g is None else g for p, g in zip(body.values(), grads, strict=True)]
    truth = torch.cat([g.double().flatten() for g in whole]).numpy()
    size = np.linalg.norm(phi, axis=1).sum() + np.linalg.norm(outside) + 1e-30
    single = has_feature(draw(SEED, index), "cast")
    assert np.linalg.norm(phi.sum(0) + outside - truth) <= (1e-4 if single else 1e-12) * size


def apart(one: Description) -> float:
    """How far an example's untied gradients are from those in its batch. The engine has no part in it."""
    text = namespace(one)
    text["checkpoint"] = lambda f, *args, use_reentrant: f(*args)
    body, worst = text["LOOP"]["body"], 0.0
    for batch in (batch for side in make_batches(one, text).values() for batch in side):
        for i, example in enumerate(examples(batch, text["SHARED"])):

            def loss(model: Any, batch: Any, i: int = i) -> Any:
                return text["loss"](model, batch)[i : i + 1]

            found = step_gradients(text["make_model"](one.seed), loss, body, batch)
            alone = step_gradients(text["make_model"](one.seed), text["loss"], body, example)
            steps = max(len(found[0]), len(alone[0]))
            a, b = (
                np.concatenate([np.pad(phi, ((0, steps - len(phi)), (0, 0))), [out]]) for phi, out in (found, alone)
            )
            worst = max(worst, np.linalg.norm(a - b) / (np.linalg.norm(a) + np.linalg.norm(b) + 1e-30))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_a_sound_model_gives_an_example_the_same_gradient_in_any_batch(block: int) -> None:
    for index in range(block, 80, 4):
        one = draw(SEED, index)
        if one.sound:
            assert apart(one) < (1e-4 if has_feature(one, "cast") else 1e-10), (index, one)


@pytest.mark.slow
@pytest.mark.parametrize("mixing", [name for name in MIXING if name != "counts its calls"])
def test_a_mixing_model_does_not(mixing: str) -> None:
    when = "n is k" if mixing == "steps by size" else "always"
    batches = ((2, 2), (3, 2), (3, 3))
    assert apart(Description(k=3, tau=3, train=batches, query=batches, mixing=mixing, when=when)) > 1e-3


@pytest.mark.parametrize("one", [Description(tau=3, seed=5), *WORDS])
def test_an_oracles_step_is_the_finite_difference_of_that_steps_weights(one: Description) -> None:
    phi, _, text, example = oracle_gradients(one)
    h, t = 1e-5, 1
    values = []
    for sign in (1, -1):
        model = text["make_model"](one.seed)
        body = body_parameters(model, text["LOOP"]["body"])
        generator = torch.Generator().manual_seed(3)
        moves = {n: torch.randn(p.shape, generator=generator, dtype=p.dtype) for n, p in body.items()}
        before = {n: p.detach().clone() for n, p in body.items()}

        def at(now: Any, body: Any = body, before: Any = before, moves: Any = moves, sign: int = sign) -> None:
            for name, p in body.items():
                p.data = before[name] + (sign * h * moves[name] if now == t else 0)

        model.at = at
        values.append(float(text["loss"](model, example).detach()))
    along = torch.cat([move.flatten() for move in moves.values()]).numpy()
    slope = 0.5 if "hook" in one.extras else 1.0  # a hook halves gradients, not what the loss does
    assert abs(slope * (values[0] - values[1]) / (2 * h) - phi[t] @ along) < 1e-6 * (1 + np.linalg.norm(phi[t]))


def test_the_oracles_scores_are_sums_of_one_another() -> None:
    random = np.random.default_rng(0)
    train, query = ([[(random.normal(size=(t, 4)), random.normal(size=4)) for t in (2, 3)]] for _ in range(2))
    by_mode = {mode: scores(train, query, [0.5], mode) for mode in ("query", "train", "matrix")}
    outside = 0.5 * np.array([[(phi.sum(0) + out) @ q for _, q in query[0]] for phi, out in train[0]])
    np.testing.assert_allclose(by_mode["query"][0].sum(2) + outside, by_mode["query"][1])
    own = 0.5 * np.array([[out @ phi.sum(0) for phi, _ in query[0]] for _, out in train[0]])
    np.testing.assert_allclose(by_mode["matrix"][0].sum((2, 3)) + own + outside, by_mode["query"][1])


def rolled(batch: int) -> Any:
    """sdi.attribute by an engine that gives examples of one batch one another's features."""

    def attribute(*args: Any, **kwargs: Any) -> Any:
        make = Featurizer.features

        def features(self: Any, *a: Any, **k: Any) -> Any:
            found = make(self, *a, **k)
            if self.batches != batch or len(found.ids) < 2:
                return found
            return replace(found, values=np.roll(found.values, 1, axis=0))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Featurizer, "features", features)
            return sdi.attribute(*args, **kwargs, audit="off")

    return attribute


@pytest.mark.slow
@pytest.mark.parametrize("batch", [0, 1])
def test_an_engine_that_swaps_the_rows_of_one_batch_is_found(batch: int) -> None:
    one = Description(train=((2, 2), (3, 2)), query=((2, 2), (2, 2)))
    assert {outcome.kind for outcome in check(one).outcomes} == {"right"}
    assert {outcome.kind for outcome in check(one, rolled(batch)).outcomes} == {"wrong"}


def test_an_exception_that_is_not_ours_is_found_and_one_of_ours_is_a_refusal() -> None:
    def raw(*args: Any, **kwargs: Any) -> Any:
        return {}["no such key"]

    def foreign(*args: Any, **kwargs: Any) -> Any:
        return torch.ones(2) @ torch.ones(3)

    def ours(*args: Any, **kwargs: Any) -> Any:
        return sdi.attribute(*args, **{**kwargs, "eta": [-1.0]})

    kinds = [{outcome.kind for outcome in check(Description(), one).outcomes} for one in (raw, foreign, ours)]
    assert kinds == [{"raw"}, {"raw"}, {"refused"}]


def test_the_shrinker_keeps_what_the_fault_needs_and_nothing_else() -> None:
    def needs(one: Description) -> bool:
        return (
            "side" in one.extras
            and any(style == "flat" for _, style in one.cells)
            and any(n == 3 for n, _ in one.train)
        )

    large = replace(
        next(draw(SEED, index, "side") for index in range(100) if draw(SEED, index, "side").tokens),
        cells=(("gate", "each token"), ("mlp", "flat")),
        train=((4, 2), (3, 5), (1, 1)),
        d=5,
    )
    assert needs(large)
    assert is_valid(large)
    least = shrink(large, needs)
    assert least == replace(
        Description(), cells=(("linear", "flat"),), extras=("side",), train=((3, 1),), query=((1, 1),), seed=large.seed
    )


@pytest.mark.slow
def test_a_saved_script_stands_alone_and_shows_the_numbers(tmp_path: Path) -> None:
    file = tmp_path / "fault.py"
    file.write_text(write_script(replace(WORDS[0], checkpoints=2, mode="matrix"), Outcome("recompute", "wrong", "w")))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True, cwd=tmp_path)
    off = [float(line.split()[4]) for line in done.stdout.splitlines() if "is off by" in line]
    assert len(off) == 2
    assert max(off) < 1e-9


@pytest.mark.slow
def test_a_run_is_counted_recorded_and_judged(tmp_path: Path) -> None:
    files = ["--json", str(tmp_path / "f.json"), "--keep", str(tmp_path / "keep")]
    found = CliRunner().invoke(cli.app, ["fuzz", "--models", "4", "--processes", "1", "--seed", "3", *files])
    assert found.exit_code == 0, found.output + repr(found.exception)
    record = Record.load(tmp_path / "f.json")
    assert sum(int(row[-1]) for row in record.tables[0].rows) == 4
    assert [bar.says for bar in record.bars] == [bar.says for bar in BARS]
    assert not (tmp_path / "f.json.so-far").exists()


def test_each_kind_of_outcome_is_counted_where_it_belongs() -> None:
    def finding(kind: str, mixing: str = "", unreached: bool = False) -> Finding:
        words = "CoverageError: got no gradient" if unreached else "AuditError: so"
        outcomes = (Outcome("hooks", "right"), Outcome("recompute", kind, words))
        return Finding(0, Description(mixing=mixing), Checked(outcomes, unreached, 0.1))

    findings = [finding("right"), finding("refused"), finding("refused", "neighbour"), finding("wrong", "neighbour")]
    findings += [finding("refused", unreached=True), finding("raw")]
    groups = by_group([Finding.from_dict(one.to_dict()) for one in findings])
    assert groups["sound"] == {"right": 1, "refused": 1, "raw": 1}
    assert groups["mixing"] == {"refused": 1, "wrong": 1}
    assert groups["unreached"] == {"refused": 1}
    values = [bar.value for bar in make_record(FuzzWork(6), findings).bars]
    assert values == [1, 1, 1 / 3]
