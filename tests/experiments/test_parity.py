"""The parity experiment: what it trains on, how it goes on after a kill, and the whole of it at smoke size."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from paths import ROOT
from rich.console import Console
from typer.testing import CliRunner

import sdi
import sdi.fast
from sdi.cli import app
from sdi.cli.demo_pretrained import demo_pretrained
from sdi.errors import StoreError
from sdi.experiments.base import new_figure
from sdi.experiments.parity import CONFIGS, configuration, make_batch, pretrained, run_experiment, train
from sdi.experiments.parity import figure as figures
from sdi.experiments.parity.analysis import model_of
from sdi.experiments.parity.experiment import progress_line
from sdi.experiments.parity.forward import accuracy, read_out, unroll
from sdi.experiments.parity.report import report
from sdi.experiments.parity.strings import (
    PROBES,
    held_out,
    labels_of,
    parity_of,
    probe,
    training_sample,
    training_strings,
    true_period,
)
from sdi.experiments.parity.training import Progress

pytestmark = pytest.mark.slow


SMOKE = CONFIGS["smoke"]
TINY = replace(SMOKE, longest=3, d=8, heads=2, patience=4, settle=8, check=6, checkpoints=2)


def test_strings_of_the_test_were_not_trained_on_and_probes_have_their_periods():
    settings = configuration("small")
    for n in (14, 20):
        known = training_strings(settings, n)
        assert len(set(known)) == len(known) == settings.pool
        assert not set(known) & set(held_out(settings, n, 64))
    assert len(training_strings(settings, 5)) == 32
    assert {pattern: true_period(pattern, 40) for pattern in PROBES} == PROBES
    assert len(set(held_out(settings, 40, 384))) == 384


def test_the_training_sample_has_the_papers_shape():
    sample = training_sample(configuration("small"))
    lengths = np.array([len(s) for s in sample])
    assert len(set(sample)) == 512
    assert (lengths == 20).sum() >= 128
    assert [((lengths >= a) & (lengths <= b)).sum() for a, b in ((2, 8), (9, 14))] == [128, 128]
    assert all(s in set(training_strings(configuration("small"), len(s))) for s in sample[::37])


def test_shuffled_labels_are_a_coin_that_is_always_the_same():
    settings = replace(configuration("small"), labels="shuffled")
    strings = training_strings(settings, 12)[:1000]
    labels = labels_of(settings, strings)
    assert (labels == labels_of(settings, strings[::-1])[::-1]).all()
    assert 400 < (labels == parity_of(strings)).sum() < 600  # false with a chance below 1e-9


def test_a_state_is_that_of_the_model_at_its_own_read_out():
    model = sdi.backends.room("fast").LoopedTransformer.init(SMOKE.model_config(), scale=0.3)
    strings = ["0110", "10", "111"]
    states = read_out(model, strings)
    for s, h in zip(strings, states, strict=True):
        batch = make_batch([s])
        with torch.no_grad():
            expected = model(batch)[0, len(s)]
            assert torch.allclose(model.head(torch.from_numpy(h).float()), expected, atol=1e-5)
    u = unroll(model, ["0110"], 6)
    assert u.h.shape == (1, 6, SMOKE.d)
    assert np.allclose(u.margin(np.array([0]))[0], -u.margin(np.array([1]))[0])
    assert accuracy(model, ["0110", "1000"]) in (0.0, 0.5, 1.0)
    assert not model.loop_norm._forward_hooks


def test_a_killed_run_goes_on_and_ends_with_the_same_bits(tmp_path):
    whole = train(tmp_path / "whole", TINY)
    assert whole.done
    for most in (3, 7, 12):  # the state is kept every 5 steps: each of these loses some
        train(tmp_path / "killed", TINY, most=most)
        (tmp_path / "killed" / "state.safetensors.part").write_bytes(b"half a sta")
    killed = train(tmp_path / "killed", TINY)
    assert all(torch.equal(killed.average[name], w) for name, w in whole.average.items())
    files = [sorted((tmp_path / run / "checkpoints").glob("*.safetensors")) for run in ("whole", "killed")]
    assert [f.name for f in files[0]] == [f.name for f in files[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True))
    assert killed.at.checks == whole.at.checks
    points = sdi.inputs.checkpoints.find_checkpoints(files[0])
    assert len(points) == TINY.checkpoints
    assert points[0].eta > points[-1].eta > 0
    assert all(torch.equal(points[-1].weights()[name], w) for name, w in whole.average.items())


def test_a_folder_keeps_its_settings(tmp_path):
    train(tmp_path, TINY, most=5)
    with pytest.raises(StoreError, match=r"begun with other settings \(rate=0.003 there, 0.5 asked\)"):
        train(tmp_path, replace(TINY, rate=0.5))
    train(tmp_path, replace(TINY, m=32, tests=4), most=6)  # the weights do not depend on these
    assert set(TINY.ANALYSIS) < set(TINY.to_dict())
    (tmp_path / "state.safetensors").write_bytes(b"not a state")
    with pytest.raises(StoreError, match="is not the state of a run"):
        train(tmp_path, TINY)


def test_training_learns(tmp_path):
    task = replace(TINY, longest=2, d=16, heads=4, patience=150, settle=20, bar=0.05, check=500, keep=500)
    trainer = train(tmp_path, task)
    assert accuracy(trainer.averaged(), training_strings(task, 2)) == 1.0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The experiment once, with a count of the batches that were audited."""
    folder, audits = tmp_path_factory.mktemp("parity"), []
    patch = pytest.MonkeyPatch()
    real = sdi.fast.featurize.__globals__["audit_features"]
    patch.setitem(sdi.fast.featurize.__globals__, "audit_features", lambda *args: (audits.append(1), real(*args)))
    said = []
    summary = run_experiment(folder, SMOKE, [0], said.append, "the command")
    patch.undo()
    return folder, summary, len(audits), said


def test_the_smoke_run_leaves_a_summary_with_every_part(run):
    folder, summary, audits, said = run
    names = {"README.md", "summary.json", "figure.png", "controls.png", "training.png", "tests.json"}
    assert names <= {path.name for path in folder.iterdir()}
    text = (folder / "README.md").read_text()
    for words in (
        "the command",
        "about 0.95",
        "about 93%",
        "shuffled labels",
        "untrained",
        "exactly zero",
        "001...",
        "| mixed |",
        "running parity",
    ):
        assert words in text
    assert json.loads((folder / "summary.json").read_text()) == summary
    steps = [x["training"]["steps"] for x in (summary["seeds"]["0"], summary["controls"]["shuffled labels"])]
    assert 0.8 * steps[0] <= steps[1] <= 1.2 * steps[0]  # the control trained as long
    assert audits >= 2 * (SMOKE.checkpoints + SMOKE.checkpoints + 1)  # both sides: trained, shuffled, untrained
    assert any(re.match(r"seed-0: \d+% right at \d+ bits, \d+% at 16 bits; step", words) for words in said)
    assert "last checkpoint holds averaged weights, all others the weights of their step" in text
    assert any("influence on tests" in words for words in said)
    assert not list(folder.glob("*/store*"))


def test_the_legend_of_the_autocorrelations_covers_no_curve():
    names = ("all", "able", "last")
    readout = {"sdi_acf": {n: [1 - 1.9 * (k % 4 != j) for k in range(14)] for j, n in enumerate(names)}}
    drawn = new_figure(figsize=(4, 3.5))
    axes = drawn.subplots()
    figures._autocorrelations(axes, {**readout, "true_period": 4})
    drawn.draw_without_rendering()
    legend = axes.get_legend().get_window_extent()
    for line in axes.get_lines()[: len(names)]:
        assert axes.transData.transform(line.get_xydata())[:, 1].max() < legend.y0


def test_the_controls_say_what_is_drawn_and_that_scales_differ(run):
    _, summary, _, _ = run
    drawn = figures._controls(summary)
    drawn.draw_without_rendering()
    said = drawn.get_supylabel()
    assert "SDI" in said
    assert "its own scale" in said
    box = drawn._supylabel.get_window_extent()
    assert drawn.bbox.x0 <= box.x0
    assert drawn.bbox.y0 <= box.y0 < box.y1 <= drawn.bbox.y1


def test_steps_after_the_read_out_have_no_influence(run):
    folder, summary, _, _ = run
    result = sdi.load(folder / "seed-0" / "probes.safetensors")
    assert (result.sdi.values[..., SMOKE.test :] == 0).all()
    assert result.sdi.values[..., : SMOKE.test].any(axis=-1).all()
    profile = result.sdi.sel(query=probe(SMOKE.test, "01")).values.sum(axis=0)
    assert np.allclose(profile, summary["seeds"]["0"]["probes"]["01"]["sdi"]["all"], rtol=1e-3, atol=1e-9)
    for model in (*summary["seeds"].values(), *summary["controls"].values(), summary["tests"]):
        assert model["zero after the read-out"] is True


def test_a_finished_run_is_read_and_not_made_again(run, monkeypatch):
    folder, summary, _, _ = run
    monkeypatch.setattr(sdi.experiments.parity.experiment, "draw", lambda summary, folder: None)  # takes longest
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("analysis.json")}
    again = run_experiment(folder, SMOKE, [0], command="the command")
    assert again == summary
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("analysis.json")} == before


def test_the_model_that_ships_is_small_and_does_what_it_is_said_to():
    settings, paths = pretrained()
    assert sum(path.stat().st_size for path in paths) < 1e6
    points = sdi.inputs.checkpoints.find_checkpoints(paths)
    assert len(points) >= 3
    assert all(point.eta > 0 for point in points)
    model = model_of(settings, points[-1].weights())
    assert accuracy(model, held_out(settings, 40, 32)) >= 31 / 32


def test_the_demo_of_a_trained_model_fits_80_columns_and_says_what_it_found(run, monkeypatch):
    folder, _, _, _ = run
    paths = sorted((folder / "seed-0" / "checkpoints").glob("*.safetensors"))
    monkeypatch.setattr(sdi.experiments.parity, "pretrained", lambda: (replace(SMOKE, tests=4), paths))
    console = Console(width=80, record=True, file=io.StringIO())
    found = demo_pretrained(console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert f"{found.accuracy[16]:.1%} at 16 bits" in text
    assert "after the read-out exactly zero" in text
    assert len(re.findall(r"^   SDI +\S{16}··$", text, flags=re.M)) == 1
    for pattern in PROBES:
        assert re.search(rf"^   {pattern}", text, flags=re.M)
    done = CliRunner().invoke(app, ["demo", "--pretrained", "--keep", "x"])
    assert done.exit_code == 2
    assert "--keep is for the demo that trains" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--config", "smal"],
            "config must be one of ('paper', 'small', 'demo', 'smoke'), got 'smal'; did you mean 'small'?",
        ),
        (["--seeds", "a"], "--seeds must be numbers with commas, like 0,1,2, got 'a'"),
        (["--seeds", "1,1"], "seeds must be different numbers from 0, at least one, got [1, 1]"),
        (["--seeds", "-1"], "seeds must be different numbers from 0, at least one, got [-1]"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(arguments, message, tmp_path):
    done = CliRunner().invoke(app, ["experiment", "parity", str(tmp_path / "new"), *arguments])
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "new").exists()


def test_the_accuracies_are_within_80_columns_of_the_line_that_says_how_far_training_is():
    checks = [{"train": 1.0, "length": 20, "test": 1.0}]
    line = "shuffled: " + progress_line(Progress(step=99999, length=20, end=99999, checks=checks), test=40)
    assert "100% right at 20 bits, 100% at 40 bits" in line[:78]  # two columns are the spinner's
    assert progress_line(Progress(), test=40) == "step 0 of ?, 2 bits, loss 1.000"


@pytest.mark.parametrize("below", ["", "new"])
def test_a_file_in_the_place_of_the_folder_is_named(below, tmp_path):
    (tmp_path / "f").touch()
    place = tmp_path / "f" / below
    done = CliRunner().invoke(app, ["experiment", "parity", str(place), "--config", "smoke"])
    assert done.exit_code == 2
    assert done.stderr == f"sdi: folder must be a folder, or one that can be made, got {place}: a file is there\n"


def test_the_committed_summary_is_what_its_numbers_say():
    place = ROOT / "docs" / "results" / "parity"
    assert report(json.loads((place / "summary.json").read_text())) in (place / "README.md").read_text()
