"""The arena: copies that stay what they were, in pages that are used again."""

from __future__ import annotations

import pytest
import torch

from sdi.fast import Featurizer, LoopedTransformer, token_cross_entropy
from sdi.fast.guard.arena import MOST, SLAB_BYTES, SMALL, Arena
from sdi.inputs.looped_config import LoopedConfig


def activation(fill: float, rows: int = SMALL // 64) -> torch.Tensor:
    return torch.full((rows, 32), fill)  # 128 bytes a row


def test_a_copy_keeps_its_values_when_its_source_changes() -> None:
    x = activation(1.0)
    kept = Arena().keep(x)
    x.zero_()
    assert (kept == 1).all()
    assert kept._version == Arena().keep(activation(2.0))._version  # a version of its own, not the slab's


def test_one_activation_read_by_several_modules_is_kept_once() -> None:
    arena, x = Arena(), activation(1.0)
    first = arena.keep(x)
    assert arena.keep(x) is first
    x.add_(1)
    assert (arena.keep(x) == 2).all()
    assert (first == 1).all()


@pytest.mark.slow
def test_copies_do_not_overlap_whatever_their_sizes() -> None:
    arena = Arena()
    sources = [activation(float(k), rows=SMALL // 64 + 7 * k) for k in range(9)]
    sources.append(activation(99.0, rows=SLAB_BYTES // 128 + 1))  # larger than a slab
    sources += [activation(float(k), rows=SLAB_BYTES // 300) for k in range(100, 104)]
    kept = [arena.keep(x) for x in sources]
    for x, copy in zip(sources, kept, strict=True):
        assert torch.equal(x, copy)


def test_pages_are_used_again_after_clear() -> None:
    arena = Arena()
    places = []
    for _ in range(2):
        arena.clear()
        places.append([arena.keep(activation(float(k))).data_ptr() for k in range(5)])
    assert places[0] == places[1]


def test_small_and_strided_tensors_stay_where_they_are() -> None:
    arena = Arena()
    for x in (torch.ones(4), activation(1.0).t(), torch.ones(1, 32).expand(SMALL, 32)):
        assert arena.keep(x).data_ptr() == x.data_ptr()


def test_the_arena_holds_no_graph() -> None:
    x = activation(1.0).requires_grad_() * 2
    arena = Arena()
    assert not arena.keep(x).requires_grad


@pytest.mark.slow
def test_no_more_is_copied_than_the_most() -> None:
    arena, x = Arena(), torch.zeros(MOST // 4 - SMALL)  # all but four times SMALL
    assert arena.keep(x).data_ptr() != x.data_ptr()
    y = activation(1.0, rows=4 * SMALL // 128 + 1)
    assert arena.keep(y).data_ptr() == y.data_ptr()
    arena.clear()
    assert arena.keep(y).data_ptr() != y.data_ptr()


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_only_hooks_buy_time_with_memory(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.fast.guard.arena.SMALL", 1)
    config = LoopedConfig.looped_gpt(vocab=8, classes=8, d=8, heads=2, tau=2, core=1, length=4)
    batch = {"tokens": torch.randint(0, 8, (2, 4)), "targets": torch.randint(0, 8, (2, 4))}
    model = LoopedTransformer.init(config)
    featurizer = Featurizer(model, token_cross_entropy, loop=config.loop(), memory=memory, audit="off")
    featurizer(batch)
    assert bool(featurizer.memory.arena._slabs) == (memory == "hooks")
