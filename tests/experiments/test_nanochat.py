"""The nanochat experiment: two stages that go on after a kill, greedy answers, and the whole at smoke size."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from sdi.cli import app
from sdi.errors import StoreError
from sdi.experiments.base import checkpoints_in
from sdi.experiments.nanochat import CONFIGS, prepare, run_experiment, train
from sdi.experiments.nanochat.answers import answered, chance, speak
from sdi.experiments.nanochat.corpus import SOURCES
from sdi.experiments.nanochat.corpus.token_batches import make_batch, prompt
from sdi.experiments.nanochat.influence import influence, profiles_at
from sdi.experiments.nanochat.model import fresh_model
from sdi.experiments.nanochat.report import report
from sdi.experiments.nanochat.training import Trainer
from sdi.fast import LoopedTransformer
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
    for name in ("mid", "tuned", "fixed", "untrained"):
        assert list(seed[name]["horizons"]) == ["2", "6"]
        for tau, found in seed[name]["horizons"].items():
            for way in ("whole", "truncated"):
                assert len(found[way]["share"]) == int(tau)
                assert found[way]["cumulative"][-1] == pytest.approx(1)
            assert set(found["told"]) == {"spectral", "gradient"}
        assert set(seed[name]["accuracy"]) == {"2", "6"}
        assert len(seed[name]["probe"]["by step"]) == len(seed[name]["jacobian"]["norm"]) == 6
        six = seed[name]["horizons"]["6"]
        assert six["truncated"]["share"][:2] == [0, 0]
        assert 0 not in six["whole"]["share"] + six["truncated"]["share"][2:]
        assert seed[name]["horizons"]["2"]["whole"] == seed[name]["horizons"]["2"]["truncated"]
    for name, training in (("mid", "training"), ("fixed", "training of mid")):
        assert seed[name][training]["steps"] == SMOKE.updates
    for name in ("tuned", "fixed"):
        assert seed[name]["training"]["steps"] == SMOKE.tuning_updates
    assert list(seed["sources"]["mid"]["table"]) == list(SOURCES)
    assert len(seed["sources"]["tuned"]["table"]["text"]["letters"]["steps"]) == 6
    assert list(seed["swap"]["swaps"]) == ["own, 1", "own, 3", "other, 1", "other, 3"]
    assert seed["swap"]["swaps"]["own, 3"]["influence"] == {"value": 1, "low": 1, "high": 1}
    assert seed["swap"]["swaps"]["own, 1"]["influence"]["value"] != 1
    assert len(seed["preferences"]["profile"]["share"]) == 6
    assert seed["rewards"]["used"] == {"train": [0, 8], "test": [0, 4]}  # it has learnt nothing, and is never right
    assert not list(folder.rglob("store"))
    assert any(line.startswith("tuned: influence, truncated-6: checkpoint 2 of 2") for line in said)
    assert any(line.startswith("tuned: preferences: checkpoint 2 of 2") for line in said)
    assert any(line.startswith("fixed, mid: answers") for line in said)


def test_the_page_says_what_the_summary_holds(run):
    folder, summary, _ = run
    page = (folder / "README.md").read_text()
    assert page == report(summary)
    for block in re.findall(r"(?:^\|.*\n)+", page, flags=re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    for name in re.findall(r"\]\((.*?)\)", page):
        assert (folder / name).stat().st_size > 1000
    planted = {
        "12.34 [": lambda x: x["tuned"]["horizons"]["6"]["growth"].update(rho=12.34),
        "over 54 [": lambda x: x["tuned"]["horizons"]["6"]["growth"].update(rho=123.0),
        "a jump at the last step |": lambda x: x["tuned"]["horizons"]["6"]["whole"].update(share=[0.0] * 5 + [1.0]),
        "12345.0% [": lambda x: x["fixed"]["probe"]["index"].update(share=123.45),
        "0.987 [": lambda x: x["swap"]["swaps"]["other, 1"]["loss, more than own"].update(value=0.987),
        "654% of the held-out pairs": lambda x: x["preferences"].update(preferred=6.54),
        "3 of 8 and 0 of 4 have a gradient": lambda x: x["rewards"]["used"].update(train=[3, 8]),
        "| problems | text | 100 [": lambda x: x["sources"]["mid"]["table"]["problems"]["text"].update(
            sum={"value": 1e9, "low": 0, "high": 2e9}, steps=[{"value": 1e9, "low": 0, "high": 0}] * 6
        ),
        "Not reproduced: ": lambda x: x["tuned"]["alignment"].update(low=-1.0),
    }
    for words, change in planted.items():
        changed = json.loads(json.dumps(summary))
        change(changed["seeds"]["0"])
        assert words in report(changed), words
    assert not any(words in page for words in list(planted)[:-1])


def test_a_finished_run_is_read_and_not_done_again(run, monkeypatch):
    folder, summary, _ = run
    for name in ("analyse", "sources_by_steps", "swap", "preferences", "rewards"):
        monkeypatch.setattr(f"sdi.experiments.nanochat.experiment.{name}", None)
    monkeypatch.setattr(Trainer, "step", None)
    assert run_experiment(folder, SMOKE, [0], command="the command") == summary


def test_only_what_is_missing_is_done_again_and_comes_out_the_same(run, tmp_path, monkeypatch):
    folder, summary, _ = run
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "seed-0" / "tuned" / "swap.json").unlink()
    for name in ("analyse", "sources_by_steps", "preferences", "rewards"):
        monkeypatch.setattr(f"sdi.experiments.nanochat.experiment.{name}", None)
    again = run_experiment(tmp_path / "run", SMOKE, [0])["seeds"]["0"]
    before = summary["seeds"]["0"]
    assert again["swap"].pop("seconds") != before["swap"]["seconds"]
    assert again["swap"] == {key: value for key, value in before["swap"].items() if key != "seconds"}


def test_the_control_takes_the_same_number_of_loop_steps_in_every_batch(tmp_path):
    chat = prepare(TINY, tmp_path)
    seen = {}
    for name, settings in (("drawn", TINY), ("fixed", TINY.control)):
        trainer, taus = Trainer(tmp_path, settings, chat), []
        trainer.model.register_forward_pre_hook(
            lambda model, args, taus=taus: taus.append(set(args[0]["tau"].tolist()))
        )
        for _ in range(6):
            trainer.step()
        seen[name] = taus
    assert seen["fixed"] == [{5}] * 6
    assert len({tuple(tau) for tau in seen["drawn"]}) > 1


def test_influence_is_in_the_order_of_the_batches(run, tmp_path):
    """Rows and columns turned round in the batches are turned round in the answer, whatever their ids."""
    folder, *_ = run
    chat = prepare(SMOKE, folder / "seed-0")
    config, points = SMOKE.model_config(2), checkpoints_in(folder / "seed-0" / "mid")[-1:]
    model, train, query = LoopedTransformer(config), chat.corpus.train["problems"][:3], chat.corpus.test["text"][:2]
    one, two = (
        influence(
            model, config.loop(), points, chat.batches(list(train[::way]), True),
            chat.batches(list(query[::way]), False), tmp_path, SMOKE.m,
        )
        for way in (1, -1)
    )  # fmt: skip
    assert one.shape == (3, 2, 2)
    assert np.array_equal(one, two[::-1, ::-1])
    assert len(np.unique(one)) == 12


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
    together = speak(model, prompts, tau=3, most=4, end=-1)
    for p, said in zip(prompts, together, strict=True):
        tokens = list(p)
        with torch.no_grad():
            for _ in range(4):
                logits = model({"tokens": torch.tensor([tokens]), "tau": torch.tensor([3])})
                tokens.append(int(logits[0, -1].argmax()))
        assert tokens[len(p) :] == said
    ended = speak(model, prompts[:1], tau=3, most=4, end=together[0][2])[0]
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
