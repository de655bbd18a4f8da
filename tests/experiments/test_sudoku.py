"""The Sudoku experiment: how it trains, how it goes on after a kill, and the whole of it at smoke size."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import sdi
from sdi.cli import app
from sdi.cli.demo_sudoku import demo_sudoku
from sdi.errors import StoreError
from sdi.experiments import sudoku
from sdi.experiments.base import checkpoints_in, draw_loops
from sdi.experiments.sudoku import CONFIGS, generate, run_experiment, train
from sdi.experiments.sudoku.accuracy import answers, solved_at
from sdi.experiments.sudoku.batches import losses, make_loader
from sdi.experiments.sudoku.findings.analysis import model_of, sampled
from sdi.experiments.sudoku.influence import influence
from sdi.experiments.sudoku.report import report
from sdi.experiments.sudoku.split import split
from sdi.experiments.sudoku.training import Trainer, fresh_model, relabelled

pytestmark = pytest.mark.slow

SMOKE = CONFIGS["smoke"]
TINY = replace(SMOKE, d=8, boards=100, updates=14, check=7, keep=5)


def test_loop_counts_are_poisson_log_normal_and_clipped():
    """20,000 draws: mean 9 less what is cut off, by the exact probabilities; standard error about 0.04."""
    rng = np.random.default_rng(0)
    drawn = np.array([draw_loops(rng, 8, 0.5, 16) for _ in range(20000)])
    assert drawn.min() == 1
    assert drawn.max() == 16
    z = np.random.default_rng(1).normal(np.log(8) - 0.125, 0.5, 400_000)
    expected = np.minimum(1 + np.random.default_rng(2).poisson(np.exp(z)), 16)
    assert abs(drawn.mean() - expected.mean()) < 0.2
    assert abs(drawn.std() - expected.std()) < 0.2


def test_loops_grow_while_the_rate_is_constant_and_then_the_rate_falls(tmp_path):
    settings = replace(TINY, updates=1000, loops=8, first_loops=2, settle=0.2, warmup=10)
    trainer = Trainer(tmp_path, settings)
    seen = []
    for step in (0, 9, 400, 800, 900, 999):
        trainer.at.step = step
        seen.append((round(trainer.mean_loops, 2), trainer.rate / settings.rate))
    loops, rates = zip(*seen, strict=True)
    assert loops == (2, 2.03, 4, 8, 8, 8)
    assert rates[0] == 0.1
    assert rates[1:4] == (1, 1, 1)
    assert 0.4 < rates[4] < 0.6
    assert 0.02 < rates[5] < 0.03


def test_the_loss_is_of_blanks_after_every_step_or_the_last(tmp_path):
    trainer = Trainer(tmp_path, TINY)
    tokens, targets = trainer.tokens[:5], trainer.targets[:5]
    by_hand = []
    for t in (1, 2, 3):
        with torch.no_grad():
            logits = trainer.model({"tokens": tokens, "tau": torch.full((5,), t)})
        by_hand.append(torch.nn.functional.cross_entropy(logits[tokens == 0], targets[tokens == 0]))
    assert torch.allclose(trainer.loss(tokens, targets, 3), torch.stack(by_hand).mean(), atol=1e-6)
    trainer.settings = replace(TINY, every=False)
    assert torch.allclose(trainer.loss(tokens, targets, 3), by_hand[-1], atol=1e-6)


def test_renamed_boards_are_the_same_puzzles_in_other_names():
    boards = generate(40, 9)
    tokens = torch.from_numpy(boards.puzzle.astype(np.int64))
    targets = torch.from_numpy(boards.solution.astype(np.int64)) - 1
    new, solution = relabelled(tokens, targets, np.random.default_rng(0), 9)
    assert ((new == 0) == (tokens == 0)).all()  # blanks stay
    assert (solution[new > 0] == new[new > 0] - 1).all()  # givens are digits of the solution
    names = [
        sorted({(int(a), int(b)) for a, b in zip(*row, strict=True)}) for row in zip(targets, solution, strict=True)
    ]
    assert all([a for a, _ in pairs] == sorted(b for _, b in pairs) == list(range(9)) for pairs in names)  # one to one
    assert len({tuple(b for _, b in pairs) for pairs in names}) > 30  # each board by names of its own


def test_training_meets_renamed_boards_only_where_it_is_asked_to(tmp_path, monkeypatch):
    for relabel in (False, True):
        trainer = Trainer(tmp_path, replace(TINY, relabel=relabel))
        met, known = [], {tuple(row) for row in trainer.tokens.tolist()}
        monkeypatch.setattr(trainer, "loss", lambda tokens, *rest, trainer=trainer, met=met: (
            met.extend(map(tuple, tokens.tolist())) or Trainer.loss(trainer, tokens, *rest)
        ))  # fmt: skip
        trainer.step()
        assert (set(met) <= known) != relabel


def test_answers_are_those_of_the_model_and_givens_stay(tmp_path):
    boards = generate(7, 4)
    model = fresh_model(SMOKE)
    said = answers(model, boards, [1, 3], batch=3)
    with torch.no_grad():
        tokens = torch.from_numpy(boards.puzzle.astype(np.int64))
        logits = model({"tokens": tokens, "tau": torch.full((7,), 3)})
    expected = np.where(boards.blank, logits.argmax(-1).numpy() + 1, boards.puzzle)
    assert (said[:, 1] == expected).all()
    solved = type(boards)(boards.solution, boards.solution)
    assert solved_at(model, solved, [1]).all()
    alone = losses(model, boards)
    batch = make_loader(boards)[0]
    picked = torch.nn.functional.cross_entropy(
        model_logits(model, tokens).flatten(0, 1), batch["targets"].flatten(), reduction="none"
    ).view(7, -1)
    by_hand = [float(row[blank].mean()) for row, blank in zip(picked, torch.from_numpy(boards.blank), strict=True)]
    assert np.allclose(alone, by_hand, atol=1e-6)


def model_logits(model, tokens):
    with torch.no_grad():
        return model({"tokens": tokens})


def test_a_killed_run_goes_on_and_ends_with_the_same_bits(tmp_path):
    whole = train(tmp_path / "whole", TINY)
    for most in (3, 7, 12):  # the state is kept every 5 updates: each of these loses some
        train(tmp_path / "killed", TINY, most=most)
    killed = train(tmp_path / "killed", TINY)
    assert all(torch.equal(killed.average[name], w) for name, w in whole.average.items())
    files = [checkpoints_in(tmp_path / run) for run in ("whole", "killed")]
    assert (
        [f.name for f in files[0]]
        == [f.name for f in files[1]]
        == ["step-000007.safetensors", "step-000014.safetensors"]
    )
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True))
    assert killed.at.checks == whole.at.checks
    with pytest.raises(StoreError, match=r"begun with other settings \(size=4 there, 6 asked\)"):
        train(tmp_path / "whole", replace(TINY, size=6))


def test_training_learns(tmp_path):
    """Two blanks at most are left to guess after 150 updates on 40 boards: a model that learns nothing is at 25%."""
    task = replace(SMOKE, boards=50, d=32, updates=150, rate=4e-3, check=500, keep=500)
    trainer = train(tmp_path, task)
    boards = split(task).train
    said = answers(trainer.averaged(), boards, [task.loops])[:, 0]
    assert (said == boards.solution)[boards.blank].mean() > 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("sudoku"), []
    return folder, run_experiment(folder, SMOKE, [0], said.append, "the command"), said


def test_the_smoke_run_leaves_a_summary_with_every_part(run):
    folder, summary, said = run
    assert summary == json.loads((folder / "summary.json").read_text())
    seed = summary["seeds"]["0"]
    assert {"panel A", "panel B", "table", "conservation", "horizon", "predictors", "at equal loss"} < set(seed)
    assert len(seed["panel A"]["all"]["curve"]) == 2 * SMOKE.loops
    assert len(seed["panel B"][0]["median"]) == SMOKE.loops
    assert seed["conservation"]["largest"] < 1e-5 * seed["conservation"]["of"]
    controls = summary["controls"]
    assert set(controls) == {
        "untrained", "permuted labels", "moved blanks", "trained on permuted labels", "seconds",
    }  # fmt: skip
    assert controls["trained on permuted labels"]["training"]["steps"] == seed["training"]["steps"]
    for name in ("README.md", "figure.png", "training.png"):
        assert (folder / name).stat().st_size > 1000
    assert not list(folder.glob("*/store*"))
    assert any(line.startswith("seed-0: influence: checkpoint 2 of 2") for line in said)
    assert any(line.startswith("permuted: solves") for line in said)


def test_every_number_of_the_page_is_from_the_summary_and_tables_have_even_rows(run):
    _, summary, _ = run
    page = report(summary)
    tables = re.findall(r"(?:^\|.*\n)+", page, flags=re.M)
    assert len(tables) == 10
    for block in tables:
        assert len({line.count("|") for line in block.splitlines()}) == 1
    changed = json.loads(json.dumps(summary))
    changed["seeds"]["0"]["table"]["self"]["hard"]["median"] = 123.0
    assert "123 [" in report(changed)
    assert "123 [" not in page


def test_a_finished_run_is_read_and_not_done_again(run, monkeypatch):
    folder, summary, _ = run
    monkeypatch.setattr("sdi.experiments.sudoku.experiment.analyse", None)
    again = run_experiment(folder, SMOKE, [0], command="the command")
    assert again == summary


def test_influence_is_in_the_order_of_the_boards_and_exact_scores_agree(run, tmp_path, monkeypatch):
    folder, *_ = run
    audits, real = [], sdi.fast.featurize.__globals__["audit_features"]
    monkeypatch.setitem(sdi.fast.featurize.__globals__, "audit_features", lambda *args: (audits.append(1), real(*args)))
    train_boards, test_boards, _ = sampled(SMOKE, split(SMOKE))
    train_boards, test_boards = train_boards.take(np.arange(6)[::-1]), test_boards.take(np.arange(5))
    points = checkpoints_in(folder / "seed-0")
    found = influence(SMOKE, points, train_boards, test_boards, tmp_path)
    assert found.sdi.shape == (6, 5, SMOKE.loops)
    assert len(audits) >= 2 * len(points)  # both sides of every checkpoint
    expected = np.zeros((6, 5))
    for point in sdi.inputs.checkpoints.find_checkpoints(points):
        model = model_of(SMOKE, point.weights())
        g = [whole_gradient(model, side) for side in (train_boards, test_boards)]
        expected += point.eta * g[0] @ g[1].T
    error = np.linalg.norm(found.tracin - expected) / np.linalg.norm(expected)
    assert error < 0.5  # m = 64: another order of boards is off by more than 1


def whole_gradient(model, boards):
    """The gradient of each board's loss by the body's parameters, by autograd."""
    out = []
    for row in range(len(boards.puzzle)):
        model.zero_grad()
        batch = make_loader(boards.take(np.array([row])))[0]
        logits = model(batch)[0]
        blank = batch["mask"][0] > 0
        torch.nn.functional.cross_entropy(logits[blank], batch["targets"][0][blank]).backward()
        out.append(torch.cat([p.grad.flatten() for p in model.core.parameters()]))
    return torch.stack(out).double().numpy()


def test_the_command_refuses_what_it_cannot_do(tmp_path):
    for arguments, words in (
        (["--config", "tiny"], "config must be one of"),
        (["--seeds", "a"], "--seeds must be numbers with commas"),
        (["--config", "smoke", "--satnet", str(tmp_path)], "SATNet's Sudoku data set is in two files"),
    ):
        found = CliRunner().invoke(app, ["experiment", "sudoku", str(tmp_path / "run"), *arguments])
        assert found.exit_code == 2
        assert words in " ".join(found.output.split())
    assert not (tmp_path / "run").exists()
    train(tmp_path / "generated" / "seed-0", replace(TINY, size=9, seed=0), most=1)
    with pytest.raises(StoreError, match=r"begun with other settings \(satnet=False there, True asked\)"):
        run_experiment(tmp_path / "generated", replace(TINY, size=9), [0], boards=generate(30, 9))
    with pytest.raises(ValueError, match="SATNet's boards have 9 digits, config 'smoke' has 4"):
        run_experiment(tmp_path / "run", SMOKE, [0], boards=generate(3, 9))


def test_the_demo_fits_80_columns_and_shows_a_board_that_is_solved(monkeypatch):
    settings, checkpoints = sudoku.pretrained()
    assert sum(path.stat().st_size for path in checkpoints) < 5e6
    small = (replace(settings, sample=6, queries=6, m=64), checkpoints[-1:])
    monkeypatch.setattr(sudoku, "pretrained", lambda: small)
    console, drawn = Console(width=80, file=io.StringIO()), []
    trace_board = sudoku.trace_board
    monkeypatch.setattr(
        sudoku, "trace_board", lambda *args: drawn.append(console.file.getvalue()) or trace_board(*args)
    )
    seen = demo_sudoku(console)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert seen["answers"][-1] == seen["solution"]
    assert seen["trajectory"].sum() == pytest.approx(seen["tracin"], rel=1e-4)
    assert re.search(r"step 1: \d+ wrong", text)
    assert ": solved" in text
    assert "Sudoku" in drawn[0], "boards are drawn before influence is computed"
    for arguments, words in ((["chess"], "TASK must be parity or sudoku, got 'chess'"), (["sudoku"], "parity without")):
        found = CliRunner().invoke(app, ["demo", *arguments])
        assert found.exit_code == 2
        assert words in " ".join(found.output.split())
