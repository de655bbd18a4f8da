"""The nanochat experiment: two stages that go on after a kill, greedy answers, and the whole at smoke size."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from sdi.cli import app
from sdi.errors import StoreError
from sdi.experiments.base import checkpoints_in
from sdi.experiments.nanochat import CONFIGS, prepare, run_experiment, train
from sdi.experiments.nanochat.answers import answered, chance, greedy
from sdi.experiments.nanochat.corpus.token_batches import make_batch, prompt
from sdi.experiments.nanochat.influence import profiles_at
from sdi.experiments.nanochat.model import fresh_model
from sdi.experiments.nanochat.report import report
from sdi.experiments.nanochat.training import Trainer
from sdi.inputs.checkpoints import find_checkpoints

pytestmark = pytest.mark.slow

SMOKE = CONFIGS["smoke"]
TINY = replace(SMOKE, d=8, batch=4, checked=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("nanochat"), []
    return folder, run_experiment(folder, SMOKE, [0], said.append, "the command"), said


def test_the_smoke_run_leaves_a_summary_with_every_part(run):
    folder, summary, said = run
    assert summary == json.loads((folder / "summary.json").read_text())
    seed = summary["seeds"]["0"]
    for name in ("mid", "tuned", "untrained"):
        assert list(seed[name]["horizons"]) == ["2", "6"]
        for tau, found in seed[name]["horizons"].items():
            for way in ("whole", "truncated"):
                assert len(found[way]["share"]) == int(tau)
                assert found[way]["cumulative"][-1] == pytest.approx(1)
        assert set(seed[name]["accuracy"]) == {"2", "6"}
        six = seed[name]["horizons"]["6"]
        assert six["truncated"]["share"][:2] == [0, 0]
        assert 0 not in six["whole"]["share"] + six["truncated"]["share"][2:]
        assert seed[name]["horizons"]["2"]["whole"] == seed[name]["horizons"]["2"]["truncated"]
    assert seed["mid"]["training"]["steps"] == SMOKE.updates
    assert seed["tuned"]["training"]["steps"] == SMOKE.tuning_updates
    assert not list(folder.glob("*/*/store"))
    assert any(line.startswith("tuned: influence, truncated-6: checkpoint 2 of 2") for line in said)
    page = (folder / "README.md").read_text()
    for block in re.findall(r"(?:^\|.*\n)+", page, flags=re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    changed = json.loads(json.dumps(summary))
    changed["seeds"]["0"]["tuned"]["horizons"]["6"]["growth"]["rho"] = 123.0
    assert "123.000 [" in report(changed)
    assert "123.000 [" not in page


def test_a_finished_run_is_read_and_not_done_again(run, monkeypatch):
    folder, summary, _ = run
    monkeypatch.setattr("sdi.experiments.nanochat.experiment.analyse", None)
    assert run_experiment(folder, SMOKE, [0], command="the command") == summary


def test_fine_tuning_begins_where_mid_training_ended_and_counts_answers_only(run, tmp_path):
    folder, *_ = run
    chat = prepare(SMOKE, folder / "seed-0")
    last = checkpoints_in(folder / "seed-0" / "mid")[-1]
    trainer = Trainer(tmp_path, SMOKE.at_stage("tuned"), chat, last)
    for name, w in find_checkpoints([last])[0].weights().items():
        assert torch.equal(torch.as_tensor(w), trainer.model.state_dict()[name])
    drawn = []

    class Spy:
        def draw(self, rng, everything):
            drawn.append(everything)
            return chat.draw(rng, everything)

    for stage in ("mid", "tuned"):
        one = Trainer(tmp_path, SMOKE.at_stage(stage), chat)
        one.chat = Spy()
        one.step()
    assert drawn == [True, False]
    etas = [point.eta for point in find_checkpoints(checkpoints_in(folder / "seed-0" / "tuned"))]
    assert etas[-1] < etas[0] <= SMOKE.tuning_rate


def test_a_killed_run_goes_on_and_ends_with_the_same_bits(tmp_path):
    chat = prepare(TINY, tmp_path)
    whole = train(tmp_path / "whole", TINY, chat)
    for most in (3, 8):  # the state is kept every 5 updates: each of these loses some
        train(tmp_path / "killed", TINY, chat, most=most)
    killed = train(tmp_path / "killed", TINY, prepare(TINY, tmp_path))
    files = [checkpoints_in(tmp_path / run) for run in ("whole", "killed")]
    assert [f.name for f in files[0]] == ["step-000006.safetensors", "step-000012.safetensors"]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True))
    assert killed.at.checks == whole.at.checks
    with pytest.raises(StoreError, match="begun with other settings \\(stage='mid' there, 'tuned' asked\\)"):
        train(tmp_path / "whole", TINY.at_stage("tuned"), chat)


def test_greedy_decoding_says_what_each_prompt_alone_would_make_the_model_say(tmp_path):
    chat = prepare(TINY, tmp_path)
    model = fresh_model(replace(TINY, scale=0.4))
    some = chat.corpus.test["problems"][:2] + chat.corpus.test["spelling"][:1]
    prompts = [prompt(c.user, chat.tokenizer) for c in some]
    together = greedy(model, prompts, tau=3, most=4, end=-1)
    for p, said in zip(prompts, together, strict=True):
        tokens = list(p)
        with torch.no_grad():
            for _ in range(4):
                logits = model({"tokens": torch.tensor([tokens]), "tau": torch.tensor([3])})
                tokens.append(int(logits[0, -1].argmax()))
        assert tokens[len(p) :] == said
    ended = greedy(model, prompts[:1], tau=3, most=4, end=together[0][2])[0]
    assert ended == together[0][: together[0].index(together[0][2])]


def test_a_model_that_knows_the_answers_is_right_and_chance_is_the_commonest_answer(tmp_path):
    chat = prepare(TINY, tmp_path)
    some = chat.corpus.test["problems"][:6]
    row = {tuple(prompt(c.user, chat.tokenizer)): c for c in some}
    end = chat.tokenizer.mark["assistant end"]

    def knows(batch):
        """Logits of a parrot of the answers."""
        tokens = batch["tokens"].tolist()
        logits = torch.zeros(len(tokens), len(tokens[0]), TINY.vocab)
        for k, line in enumerate(tokens):
            p = next(p for p in row if tuple(line[: len(p)]) == p)
            wrong = row[p] is some[0]
            said = [*chat.tokenizer.encode("#### 99" if wrong else row[p].assistant), end]
            for i, token in enumerate(said):
                if len(p) - 1 + i < len(line):
                    logits[k, len(p) - 1 + i, token] = 1
        return logits

    assert answered(knows, some, chat.tokenizer, tau=1, batch=4).tolist() == [False] + [True] * 5
    ends = [c.assistant.split("#### ")[1] for c in chat.corpus.train["problems"]]
    common = max(set(ends), key=lambda x: (ends.count(x), -ends.index(x)))
    expected = np.mean([c.assistant.endswith(f" {common}") for c in chat.corpus.test["problems"]])
    assert chance(chat.corpus.train["problems"], chat.corpus.test["problems"]) == expected


def test_profiles_are_the_gradients_of_autograd(run, tmp_path):
    """Summed over steps, exact TracIn of the whole training set, by autograd; m is wide, so the sketch is near."""
    folder, *_ = run
    s = replace(SMOKE, m=4096, sample=4, queries=3)
    chat = prepare(s, folder / "seed-0")._replace(settings=s)
    points = checkpoints_in(folder / "seed-0" / "mid")[-1:]
    found = profiles_at(6, True, chat, points, everything=True, store=tmp_path)
    assert found.shape == (3, 6)
    assert (found[:, :2] == 0).all()
    point = find_checkpoints(points)[0]
    model = fresh_model(s)
    model.load_state_dict({name: torch.as_tensor(w) for name, w in point.weights().items()})

    def gradient(conversation, everything):
        model.zero_grad()
        batch = chat.batches([conversation], everything)[0]
        logits = model({**batch, "tau": torch.tensor([6])})[0]
        counted = batch["mask"][0] > 0
        torch.nn.functional.cross_entropy(logits[counted], batch["targets"][0][counted]).backward()
        parts = [*model.inject.parameters(), *model.core.parameters()]
        return torch.cat([p.grad.flatten() for p in parts]).double().numpy()

    g = sum(gradient(c, True) for c in chat.corpus.train["problems"][:4])
    expected = np.array([point.eta * g @ gradient(c, False) for c in chat.corpus.test["problems"][:3]])
    assert np.sort(found.sum(axis=1)) == pytest.approx(np.sort(expected), rel=0.1)


def test_every_source_is_drawn_equally_often(tmp_path):
    """2,000 draws of 4: each source 1,600 +- 36."""
    chat = prepare(replace(TINY, conversations=20, held_out=2), tmp_path)
    lengths = {name: [row.tokens for row in rows] for name, rows in chat.rows.items()}
    longest = max(len(t) for rows in lengths.values() for t in rows) - 1
    source = {tuple(t[:-1] + [0] * (longest - len(t) + 1)): name for name, rows in lengths.items() for t in rows}
    rng, seen = np.random.default_rng(0), dict.fromkeys(chat.rows, 0)
    for _ in range(2000):
        for line in chat.draw(rng, True)["tokens"].tolist():
            seen[source[tuple(line + [0] * (longest - len(line)))]] += 1
    assert all(abs(many - 1600) < 180 for many in seen.values())
    assert make_batch(chat.rows["text"][:1], True)["mask"].all()


def test_the_command_refuses_what_it_cannot_do(tmp_path):
    for arguments, words in ((["--config", "tiny"], "config must be one of"), (["--seeds", "a"], "--seeds must be")):
        found = CliRunner().invoke(app, ["experiment", "nanochat", str(tmp_path / "run"), *arguments])
        assert found.exit_code == 2
        assert words in " ".join(found.output.split())
    assert not (tmp_path / "run").exists()
