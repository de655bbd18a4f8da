"""The demo, small: what it prints is what it computed; what it trains on is what it says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.console import Console

import sdi
from sdi.cli.demo import demo
from sdi.cli.tables import bar, spark
from sdi.experiments import parity

TINY = replace(
    parity.configuration("smoke"), d=8, heads=2, longest=4, test=4, pool=8, settle=4, patience=2, m=16,
    per_tercile=1, at_longest=3, tests=8,
)  # fmt: skip


def shown(width=80, **arguments):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        result = demo(console, **arguments)
        return result, console.export_text()


@pytest.mark.slow
def test_the_demo_fits_80_columns_and_says_what_it_checked(tmp_path):
    keep = tmp_path / "kept"
    result, text = shown(settings=TINY, keep=keep)
    assert max(map(len, text.replace(str(keep), "").splitlines())) <= 80
    for words in ("all 14 body parameters agree with autograd", "exactly zero: yes", "95% error bars", "± ", "late"):
        assert words in text
    assert len(re.findall(r"^ +\d+ │ +0 +exactly", text, flags=re.M)) == 2  # the steps after the read-out
    assert sorted(p.name for p in keep.iterdir()) == ["result.safetensors", "store", "training"]
    assert (sdi.load(keep / "result.safetensors").sdi.values == result.sdi.values).all()
    assert (result.sdi.values[:, :, TINY.test :] == 0).all()
    with pytest.raises(ValueError, match="--keep must be a new or empty folder"):
        shown(settings=TINY, keep=keep)


def test_an_example_is_read_out_after_as_many_steps_as_it_has_bits():
    batch = parity.make_batch(["0110", "01"])
    assert batch["tokens"].tolist() == [[0, 1, 1, 0, 2, 3], [0, 1, 2, 3, 3, 3]]
    assert batch["readout"].tolist() == [4, 2]
    assert batch["tau"].tolist() == [6, 4]
    assert (batch["targets"] * batch["mask"]).sum(1).tolist() == [0, 1]


def test_bars_and_sparks_show_size_and_sign():
    assert str(spark([0.0, 0.0])) == "··"
    assert str(bar(0.0, -1.0, 1.0, 10)) == "     │     "
    assert len(str(bar(-0.3, -1.0, 2.0, 30))) == 31
    assert str(bar(1e-9, 0.0, 1.0, 8))[1] == "▏"  # small is not nothing
    assert str(spark([-1e-9, 1.0]))[0] == "▁"


@pytest.mark.slow
def test_the_demo_writes_its_report(tmp_path):
    _, text = shown(settings=TINY, report=tmp_path / "demo.html", width=200)
    assert "demo.html" in text
    page = (tmp_path / "demo.html").read_text()
    assert len(page) < 5_000_000
    assert '"parts":{"parameters":["core.0' in page
