"""Preference pairs and rewards: wrong answers are wrong, losses are their formulas, advantages are unbiased."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from sdi.experiments.nanochat import CONFIGS, prepare
from sdi.experiments.nanochat.corpus import final_answer
from sdi.experiments.nanochat.corpus.token_batches import make_batch, prompt
from sdi.experiments.nanochat.findings.preferences import BETA, dpo, pair_batches, wrong_answer
from sdi.experiments.nanochat.findings.rewards import advantages, policy_gradient, sample, sample_batches
from sdi.experiments.nanochat.model import fresh_model

TINY = replace(CONFIGS["smoke"], d=8)


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    return prepare(TINY, tmp_path_factory.mktemp("chat"))


def test_a_wrong_answer_has_a_wrong_end_and_is_as_well_formed(chat):
    rng, firsts = np.random.default_rng(0), []
    for c in chat.corpus.train["problems"]:
        wrong = wrong_answer(c, rng)
        right_sums, sums = (re.findall(r"(\d+) ([+-]) (\d+) = (\d+)", x.assistant) for x in (c, wrong))
        assert [s[1:3] for s in sums] == [s[1:3] for s in right_sums]
        assert sums[0][0] == right_sums[0][0]
        assert sums[1][0] == sums[0][3]
        assert final_answer(wrong.assistant) == sums[1][3] != final_answer(c.assistant)
        errors = [eval(a + sign + b) != int(r) for a, sign, b, r in sums]
        assert sum(errors) == 1
        firsts.append(errors[0])
        assert (wrong.user, wrong.key) == (c.user, c.key)
    assert 0.2 < np.mean(firsts) < 0.8


def log_p(model, row, tau):
    """By hand, token by token, of what the assistant says."""
    logits = model({"tokens": torch.tensor([row.tokens[:-1]]), "tau": torch.tensor([tau])})[0].log_softmax(-1)
    return sum(logits[k, t] for k, (t, said) in enumerate(zip(row.tokens[1:], row.said[1:], strict=True)) if said)


@pytest.mark.slow
def test_the_dpo_loss_is_its_formula(chat):
    model, reference = fresh_model(replace(TINY, scale=0.4)), fresh_model(replace(TINY, scale=0.4, seed=1))
    some = chat.corpus.train["problems"][:3]
    (batch,) = pair_batches(chat, some, reference, tau=3, seed=5)
    rng = np.random.default_rng(5)
    with torch.no_grad():
        found = dpo(model, {**batch, "tau": torch.full((3,), 3)})
        for k, c in enumerate(some):
            right, wrong = chat.rendered(c), chat.rendered(wrong_answer(c, rng))
            gaps = [log_p(m, right, 3) - log_p(m, wrong, 3) for m in (model, reference)]
            assert abs(float(gaps[0] - gaps[1])) > 1e-3
            expected = torch.log1p(torch.exp(-BETA * (gaps[0] - gaps[1])))
            assert float(found[k]) == pytest.approx(float(expected), rel=1e-4)
    assert len(set(batch["id"])) == 3


def test_advantages_sum_to_zero_and_are_zero_where_all_agree():
    a = advantages(np.array([[1.0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]]))
    assert a.sum(axis=1) == pytest.approx(0)
    assert not a[1:].any()
    others = [(0 + 0 + 1) / 3, (1 + 0 + 1) / 3]
    assert a[0, :2] == pytest.approx([1 - others[0], 0 - others[1]])


@pytest.mark.slow
def test_the_expected_policy_gradient_is_that_of_the_expected_reward(chat):
    """Exactly: all answers of one token, pairs of samples weighted by their probability, against autograd of E[r]."""
    model = fresh_model(replace(TINY, scale=0.4)).double()
    before = prompt(chat.corpus.train["problems"][0].user, chat.tokenizer)[-4:]
    words = list(range(6))  # the model may say these, and no other: p is normed over them
    reward = torch.tensor([1.0, 0, 0, 1, 0, 0], dtype=torch.float64)
    weight = model.inject.weight

    def chances():
        logits = model({"tokens": torch.tensor([before]), "tau": torch.tensor([2])})[0, -1, words]
        return logits.softmax(-1)

    truth = -torch.autograd.grad((chances() * reward).sum(), weight)[0]

    class Only:
        """The model's distribution over `words`, at every place."""

        def __call__(self, batch):
            logits = model({**batch, "tau": torch.tensor([2])})
            out = torch.full_like(logits, -1e9)
            out[..., words] = logits[..., words]
            return out

    p, total = chances().detach(), torch.zeros_like(weight)
    for i in words:
        for j in words:
            a = advantages(np.array([[float(reward[i]), float(reward[j])]]))[0]
            for token, better in ((i, a[0]), (j, a[1])):
                tokens, targets = torch.tensor([before]), torch.tensor([[*before[1:], token]])
                mask = torch.tensor([[0.0] * (len(before) - 1) + [1.0]])
                if better:
                    batch = {
                        "tokens": tokens, "targets": targets, "mask": mask, "advantage": torch.tensor([better]),
                    }  # fmt: skip
                    value = policy_gradient(Only(), batch).sum()
                    total += p[i] * p[j] / 2 * torch.autograd.grad(value, weight)[0]
    assert truth.norm() > 1e-6
    assert torch.allclose(total, truth, rtol=1e-6, atol=1e-12)


def test_samples_are_rewarded_for_right_answers_and_say_what_was_said(chat):
    """A parrot that says the right answer to the first question, anything to the second."""
    some = chat.corpus.train["problems"][:2]
    tokenizer = chat.tokenizer
    end = tokenizer.mark["assistant end"]
    begun = [prompt(c.user, tokenizer) for c in some]
    right = [*tokenizer.encode(some[0].assistant), end]

    def parrot(batch):
        logits = torch.full((*batch["tokens"].shape, TINY.vocab), -30.0)
        for k, line in enumerate(batch["tokens"].tolist()):
            first = line[: len(begun[0])] == begun[0]
            start = len(begun[0] if first else begun[1]) - 1
            for i in range(start, len(line)):
                if first:
                    logits[k, i, right[min(i - start, len(right) - 1)]] = 30
                else:
                    logits[k, i, tokenizer.encode("a1")] = 30
        return logits

    found = sample(parrot, chat, some, tau=1, many=3, seed=0)
    assert [one.question for one in found] == [0, 0, 0, 1, 1, 1]
    assert [one.reward for one in found] == [1, 1, 1, 0, 0, 0]
    assert {one.advantage for one in found} == {0.0}
    assert found[0].row.tokens == chat.rendered(some[0]).tokens
    assert found[0].row.said == chat.rendered(some[0]).said
    assert len({tuple(one.row.tokens) for one in found[3:]}) > 1  # drawn, not the likeliest
    assert found[3].row.tokens[-1] != end  # cut
    again = sample(parrot, chat, some, tau=1, many=3, seed=0)
    assert again == found
    batches = sample_batches(found)
    assert len({name for b in batches for name in b["id"]}) == 6
    assert torch.equal(batches[0]["mask"], make_batch([one.row for one in found], False)["mask"])
