"""The chat corpus: answers are right, nothing held out stands in training, the mask is the assistant's."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdi.experiments.nanochat.corpus import SOURCES, Corpus, Tokenizer, final_answer, generate, make_batches, render
from sdi.experiments.nanochat.corpus.sources import THINGS
from sdi.experiments.nanochat.corpus.token_batches import make_batch, prompt


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return generate(300, 60, seed=1)


@pytest.fixture(scope="module")
def tokenizer(corpus: Corpus) -> Tokenizer:
    return Tokenizer.train((c.user + " " + c.assistant for c in corpus.all_of("train")), vocab=320)


def test_no_held_out_conversation_stands_in_training(corpus):
    train, test = corpus.all_of("train"), corpus.all_of("test")
    assert set(corpus.train) == set(corpus.test) == set(SOURCES)
    assert not {c.user for c in train} & {c.user for c in test if c.source != "text"}
    assert not {c.user + c.assistant for c in train} & {c.user + c.assistant for c in test}
    for source in SOURCES:
        assert len(corpus.train[source]) >= 200
        assert len(corpus.test[source]) == 60
        assert not {c.key for c in corpus.train[source]} & {c.key for c in corpus.test[source]}


def test_held_out_words_and_numbers_are_new_to_training(corpus):
    """Read from the texts themselves, not from keys."""
    many = generate(4000, 400, seed=0)  # enough for words to meet by chance
    words = {c.key for source in ("spelling", "letters") for c in many.test[source]}
    assert words.isdisjoint(
        re.findall(r"\w+", " ".join(c.user for s in ("spelling", "letters") for c in many.train[s]))
    )
    assert all(c.key in c.user for c in many.test["spelling"] + many.test["letters"])
    things = "|".join(THINGS)
    stories = [
        {re.sub(rf"\b[A-Z][a-z]+\b|\b({things})\b", "X", c.user) for c in side["problems"]}
        for side in (corpus.train, corpus.test)
    ]
    assert not stories[0] & stories[1]
    assert all(c.assistant not in {t.assistant for t in corpus.train["text"]} for c in corpus.test["text"])


def test_too_many_held_out_are_refused():
    with pytest.raises(ValueError, match="test must leave conversations of 'identity' for training, got 3000"):
        generate(1, 3000, seed=0)


def test_worked_answers_are_right(corpus):
    for c in corpus.all_of("train"):
        if c.source == "problems":
            sums = re.findall(r"(\d+) ([+-]) (\d+) = (\d+)", c.assistant)
            assert len(sums) == 2
            assert all(eval(a + sign + b) == int(r) for a, sign, b, r in sums)
            assert sums[0][3] == sums[1][0]
            assert final_answer(c.assistant) == sums[1][3]
            assert re.findall(r"\d+", c.user) == [sums[0][0], sums[0][2], sums[1][2]]
        if c.source == "letters":
            asked = re.match(r"How many (\w) are in (\w+)\?|Count the letter (\w) in (\w+)\.", c.user)
            if asked:
                letter, word = (g for g in asked.groups() if g)
                assert final_answer(c.assistant) == str(word.count(letter))
                assert re.sub(r"[^a-z]", "", c.assistant) == word
        if c.source == "spelling":
            assert c.assistant.replace(", ", "") in c.user


@pytest.mark.slow
def test_the_corpus_is_the_same_in_another_process():
    code = "from sdi.experiments.nanochat.corpus import generate; print(generate(5, 5, 1))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(generate(5, 5, 1))
    assert generate(5, 5, 1) != generate(5, 5, 2)


@pytest.mark.slow
@given(st.text())
def test_any_text_comes_back_and_never_spells_a_mark(tokenizer, text):
    numbers = tokenizer.encode(text)
    assert tokenizer.decode(numbers) == text
    assert not set(numbers) & set(tokenizer.mark.values())


def test_a_tokenizer_comes_back_from_its_file(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json", 320)
    assert again.encode("Spell strisea, 12 times.") == tokenizer.encode("Spell strisea, 12 times.")
    joined = Tokenizer.train(["1212 " * 9], 300)
    assert len(joined.encode("1212")) == 4  # digits one by one, however often they stand together
    assert len(tokenizer.encode("How many")) < 8  # merges were learnt
    assert max(tokenizer.mark.values()) == 319
    with pytest.raises(ValueError, match="vocab must be at least 261, all bytes and 5 marks, got 200"):
        Tokenizer.train(["a"], vocab=200)


def test_the_mask_is_what_the_assistant_says_and_its_end(corpus, tokenizer):
    for c in corpus.all_of("test"):
        tokens, said = render(c, tokenizer, length=1000)
        heard = [t for t, is_said in zip(tokens, said, strict=True) if is_said]
        assert tokenizer.decode(heard) == c.assistant
        assert heard[-1] == tokenizer.mark["assistant end"]
        assert tokens[: len(tokens) - len(heard)] == prompt(c.user, tokenizer)
    assert render(c, tokenizer, length=7) == (tokens[:7], said[:7])


def test_batches_predict_the_next_token_and_padding_has_no_weight(corpus, tokenizer):
    some = [c for source in SOURCES for c in corpus.test[source][:2]]
    rows = [render(c, tokenizer, 60) for c in some]
    for everything in (True, False):
        batches = make_batches(some, tokenizer, 60, everything, batch=4)
        assert [name for b in batches for name in b["id"]] == [f"{c.source}: {c.user} {c.assistant}" for c in some]
        assert len({name for b in batches for name in b["id"]}) == len(some)
        k = 0
        for batch in batches:
            for tokens, targets, mask in zip(batch["tokens"], batch["targets"], batch["mask"], strict=True):
                ids, said = rows[k]
                many = len(ids) - 1
                assert torch.equal(tokens[1:many], targets[: many - 1])
                assert targets[:many].tolist() == ids[1:]
                assert mask[:many].tolist() == ([1.0] * many if everything else [float(x) for x in said[1:]])
                assert mask[many:].sum() == 0
                k += 1
    assert make_batch(rows[:1], True)["tokens"].dtype == torch.int64
    assert np.isin(make_batch(rows, False)["mask"], (0, 1)).all()
