"""The demo, small: what it prints is what it computed; what it trains on is what it says."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

import sdi
from sdi import parity
from sdi.cli.demo import choose_strings, demo
from sdi.cli.tables import bar, spark
from sdi.parity import Parity

TINY = Parity(longest=4, d=8, heads=2, batch=8, most=6, decay=2)


def shown(width=80, **arguments):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        result = demo(console, **arguments)
        return result, console.export_text()


def test_the_demo_fits_80_columns_and_says_what_it_checked(tmp_path):
    keep = tmp_path / "kept"
    result, text = shown(task=TINY, examples=6, m=16, keep=keep)
    assert max(map(len, text.replace(str(keep), "").splitlines())) <= 80
    for words in ("all 14 body parameters agree with autograd", "exactly zero: yes", "95% error bars", "± ", "late"):
        assert words in text
    assert len(re.findall(r"^ +\d+ │ +0 +exactly", text, flags=re.M)) == 2  # the steps after the read-out
    assert sorted(p.name for p in keep.iterdir()) == ["checkpoints", "result.safetensors", "store"]
    assert (sdi.load(keep / "result.safetensors").sdi.values == result.sdi.values).all()
    assert (result.sdi.values[:, :, TINY.longest :] == 0).all()
    with pytest.raises(ValueError, match="--keep must be a new or empty folder"):
        shown(task=TINY, keep=keep)


def test_training_leaves_checkpoints_with_their_learning_rates(tmp_path):
    trained = parity.train_parity(tmp_path, Parity(longest=3, d=8, heads=2, batch=8, bar=10.0, decay=2, most=9))
    assert trained.length == 3
    assert len(trained.checkpoints) == 3  # two milestones (2 bits, 3 bits) and the end
    points = sdi.inputs.checkpoints.find_checkpoints(str(tmp_path / "*.safetensors"))
    assert [p.path for p in points] == trained.checkpoints
    assert all(p.eta > 0 for p in points)


@pytest.mark.parametrize("n", [2, 5, 6, 9, 12])
def test_what_is_held_out_is_not_trained_on(n):
    known, others = parity.pool(n), parity.held_out(n)
    assert not set(known) & set(others)
    assert len(set(known)) == len(known)
    assert {len(s) for s in known + others} == {n}
    if n >= 6:
        assert parity.alternating(n) not in known
        assert others


def test_an_example_is_read_out_after_as_many_steps_as_it_has_bits():
    batch = parity.make_batch(["0110", "01"])
    assert batch["tokens"].tolist() == [[0, 1, 1, 0, 2, 3], [0, 1, 2, 3, 3, 3]]
    assert batch["readout"].tolist() == [4, 2]
    assert batch["tau"].tolist() == [6, 4]
    assert (batch["targets"] * batch["mask"]).sum(1).tolist() == [0, 1]


def test_strings_are_different_and_too_many_are_refused():
    assert len(set(choose_strings(TINY, 20))) == 20
    with pytest.raises(ValueError, match="at most"):
        choose_strings(TINY, 1000)


def test_bars_and_sparks_show_size_and_sign():
    assert str(spark([0.0, 0.0])) == "··"
    assert str(bar(0.0, -1.0, 1.0, 10)) == "     │     "
    assert len(str(bar(-0.3, -1.0, 2.0, 30))) == 31
    assert str(bar(1e-9, 0.0, 1.0, 8))[1] == "▏"  # small is not nothing
    assert str(spark([-1e-9, 1.0]))[0] == "▁"
