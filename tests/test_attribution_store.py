"""The store: what it holds, when it is reused, when it is refused, and that what is damaged is named."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from test_attribution_cases import (
    CONFIG,
    TRAIN,
    World,
    assert_close,
    assert_same_result,
    counting,
    featurized,
    files,
    flat,
    make_batches,
    make_model,
    save_checkpoint,
    world,
)

import sdi
import sdi.fast
from sdi import Features, Loop, SketchMap, Store, StoreError
from sdi.fast import token_cross_entropy
from sdi.files import write_whole
from sdi.fingerprint import loss_fingerprint, model_fingerprint
from sdi.store import decoded

__all__ = ["world"]


@pytest.fixture
def filled(world: World) -> World:
    """A world whose store is full: three training shards of at most 3 examples, one query shard, two checkpoints."""
    world.attribute(store=world.store, shard=3)
    return world


def shards(folder: Path) -> list[Path]:
    return sorted(folder.rglob("shard-*.safetensors"))


def test_the_layout_is_what_the_text_says(filled: World) -> None:
    result = filled.attribute(store=filled.store)
    first, second = result.by_checkpoint.coords["checkpoint"]
    assert first.startswith("step-9-")
    wanted = ["manifest.json"]
    for point in (first, second):
        for side, count in (("train", 3), ("query", 1)):
            wanted += [f"{point}/{side}/shard-0000{k}.{end}" for k in range(count) for end in ("json", "safetensors")]
    assert sorted(files(filled.store)) == sorted(wanted)
    manifest = json.loads((filled.store / "manifest.json").read_text())
    assert manifest["version"] == 1
    assert manifest["sdi"] == sdi.__version__
    assert manifest["sketch"]["recipe"].items() >= {"m": 32, "seed": 0, "family": "table"}.items()
    assert manifest["sketch"]["shapes"]["core.0.attn.q.weight"] == [8, 8]
    assert manifest["config"]["loop"] == {"body": ["core"], "step": "inject", "end": "coda"}
    assert manifest["config"]["model"]["config"]["tau"] == 3
    train, query = (load_file(filled.store / first / side / "shard-00000.safetensors") for side in ("train", "query"))
    width = Store(filled.store).sketch.size
    assert train["values"].shape == (3, width)
    assert query["values"].shape == (3, 3, width)
    sidecar = json.loads((filled.store / first / "train/shard-00001.json").read_text())
    assert sidecar["ids"] == ["t-3", "t-4", "t-5"]
    assert sidecar["tau"] == [3, 3, 3]


def test_a_full_store_is_read_and_nothing_else(filled: World) -> None:
    before = files(filled.store)
    with featurized() as calls:
        result = filled.attribute(store=filled.store)
    assert not calls
    assert files(filled.store) == before
    assert_same_result(result, filled.attribute())


def test_new_queries_make_nothing_on_the_training_side(filled: World) -> None:
    more = make_batches(4, "new", seed=8)
    with featurized() as calls:
        result = filled.attribute(store=filled.store, query=more)
    assert flat(calls) == 2 * [f"new-{k}" for k in range(4)]
    assert_same_result(result, filled.attribute(query=more))


def test_more_training_examples_append(filled: World) -> None:
    more = [*TRAIN, *make_batches(3, "more", seed=8)]
    before = files(filled.store)
    with featurized() as calls:
        result = filled.attribute(store=filled.store, train=more)
    assert flat(calls) == 2 * [f"more-{k}" for k in range(3)]
    assert before.items() < files(filled.store).items()
    assert_same_result(result, filled.attribute(train=more))


def test_a_new_checkpoint_is_the_only_one_to_be_made(filled: World) -> None:
    path = filled.folder / "ckpt/step-11.safetensors"
    save_checkpoint(path, make_model(3), 0.125)
    with featurized() as calls:
        result = filled.attribute(store=filled.store)
    assert len(flat(calls)) == 10
    assert_same_result(result, filled.attribute())


def loss_twice(model: Any, batch: Any) -> Any:
    return 2 * token_cross_entropy(model, batch)


def scaled_loss(scale: float, model: Any, batch: Any) -> Any:
    return scale * token_cross_entropy(model, batch)


def other_tau(world: World) -> None:
    model = make_model(config=replace(CONFIG, tau=4))
    model.load_state_dict(world.model.state_dict())
    world.model = model


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"m": 64}, "sketch.recipe.m: 32 in the store, 64 now"),
        ({"m": None}, "sketch.recipe: {.*} in the store, None now"),
        ({"seed": 3}, "sketch.recipe.seed: 0 in the store, 3 now"),
        ({"family": "polynomial"}, "sketch.recipe.family: 'table' in the store, 'polynomial' now"),
        ({"loss": loss_twice}, "config.loss: 'token_cross_entropy .*' in the store, 'loss_twice .*' now"),
        ({"loop": Loop("core", "inject")}, "config.loop.end: 'coda' in the store, None now"),
        ({"loop": Loop("core.0.mlp", "inject")}, r"config.loop.body: \['core'\] in the store, \['core.0.mlp'\] now"),
        ({"dtype": "float32"}, "config.dtype: 'float64' in the store, 'float32' now"),
        ({"mode": "train"}, "config.steps.train: False in the store, True now"),
        (other_tau, "config.model.config.tau: 3 in the store, 4 now"),
        (lambda world: world.model.float(), "config.model.parts: '.*' in the store, '.*' now"),
    ],
)
def test_another_config_is_refused_with_the_difference_shown(filled: World, change: Any, line: str) -> None:
    before = files(filled.store)
    if callable(change):
        change(filled)
        change = {}
    with pytest.raises(StoreError, match=rf"was made with other settings; use them, or a new folder:\n(.*\n)*  {line}"):
        filled.attribute(store=filled.store, **change)
    assert files(filled.store) == before


def test_a_loop_of_modules_is_the_loop_of_their_names(filled: World) -> None:
    model = filled.model
    with featurized() as calls:
        filled.attribute(store=filled.store, loop=Loop([model.core], model.inject, model.coda))
    assert not calls


def test_what_a_loss_holds_is_part_of_it() -> None:
    def hold(scale: float) -> Any:
        return lambda model, batch: scale * token_cross_entropy(model, batch)

    losses = [loss_twice, scaled_loss, partial(scaled_loss, 2.0), partial(scaled_loss, 3.0), hold(2.0), hold(3.0)]
    losses += [lambda model, batch, k=1: k, lambda model, batch, k=2: k, lambda model, batch: 3 in {"a", "b"}]
    assert len({loss_fingerprint(loss) for loss in losses}) == len(losses)
    assert loss_fingerprint(hold(2.0)) == loss_fingerprint(hold(2.0))


def loss_with_a_set(model: Any, batch: Any) -> Any:
    return "c" in {"a", "b", "c", "d"}


def test_fingerprints_are_the_same_in_every_process() -> None:
    code = "from test_attribution_store import loss_with_a_set, loss_fingerprint, model_fingerprint, make_model"
    code += ", Trainer, with_attribute, Settings"
    code += "; print(loss_fingerprint(loss_with_a_set)); print(model_fingerprint(make_model()))"
    code += "; print(loss_fingerprint(Trainer({'x', 'y', 'z'}).loss), model_fingerprint(with_attribute(Settings())))"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, env=env, capture_output=True, text=True, check=True
    )
    wanted = f"{loss_fingerprint(loss_with_a_set)}\n{model_fingerprint(make_model())}\n"
    wanted += f"{loss_fingerprint(Trainer({'x', 'y', 'z'}).loss)} {model_fingerprint(with_attribute(Settings()))}\n"
    assert done.stdout == wanted


@dataclass
class Settings:
    tau: int = 4
    act: Any = torch.tanh


class Named:
    def __init__(self, tau: int) -> None:
        self.tau = tau
        self.deeper = {"rates": [Settings(tau)]}


def with_attribute(value: Any) -> Any:
    model = make_model()
    model.core[0].attn.setting = value
    return model


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tau": 4}, {"tau": 7}),
        ({"a": {"b": [1, {"c": 4}]}}, {"a": {"b": [1, {"c": 7}]}}),
        (Settings(4), Settings(7)),
        (Settings(), Settings(act=torch.relu)),
        (SimpleNamespace(tau=4), SimpleNamespace(tau=7)),
        (Named(4), Named(7)),
        (torch.tanh, torch.relu),
        (torch.nn.functional.silu, torch.nn.functional.gelu),
        (lambda x: x, lambda x: 2 * x),
        (partial(torch.clamp, min=0), partial(torch.clamp, min=-1)),
        (torch.float32, torch.bfloat16),
        ([Settings(4)], [Settings(7)]),
        ({1, 2}, {1, 3}),
        (np.int64(4), np.int64(7)),
    ],
)
def test_what_stands_in_a_models_attributes_is_part_of_it(one: Any, other: Any) -> None:
    first, again, second = (model_fingerprint(with_attribute(v)) for v in (one, deepcopy(one), other))
    assert first == again
    assert first != second
    json.dumps(first)


def test_a_changed_config_is_named_by_its_key(filled: World) -> None:
    filled.model.setting = {"loops": {"tau": 4}}
    filled.attribute(store=filled.folder / "other")
    filled.model.setting["loops"]["tau"] = 7
    with pytest.raises(StoreError, match=r"config.model.setting.loops.tau: 4 in the store, 7 now"):
        filled.attribute(store=filled.folder / "other")


def test_what_changes_from_process_to_process_is_not_part_of_a_model() -> None:
    class Slots:
        __slots__ = ()

    values = [lambda: object(), lambda: logging.getLogger("x"), lambda: threading.Lock(), Slots, lambda: iter([])]
    for value in values:
        assert model_fingerprint(with_attribute(value())) == model_fingerprint(with_attribute(value()))
    logger = logging.getLogger("y")
    before = model_fingerprint(with_attribute(logger))
    logger.setLevel("ERROR")
    logger.addHandler(logging.NullHandler())
    assert model_fingerprint(with_attribute(logger)) == before
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert model_fingerprint(with_attribute(loop)) == model_fingerprint(with_attribute(loop))


BETA: Any = 1.0


def scaled_by_beta(x: Any) -> Any:
    return BETA * x


def loss_of_a_constant(model: Any, batch: Any) -> Any:
    return BETA * token_cross_entropy(model, batch)


def loss_of_a_helper(model: Any, batch: Any) -> Any:
    return scaled_by_beta(token_cross_entropy(model, batch))


def loss_of_an_inner_function(model: Any, batch: Any) -> Any:
    return [BETA * x for x in token_cross_entropy(model, batch)]


@pytest.mark.parametrize("loss", [loss_of_a_constant, loss_of_a_helper, loss_of_an_inner_function])
@pytest.mark.parametrize(("one", "other"), [(1.0, 10.0), ("a", "b"), ((1, 2), (1, 3)), ({"k": [1]}, {"k": [2]})])
def test_the_constants_that_a_loss_reads_are_part_of_it(
    monkeypatch: pytest.MonkeyPatch, loss: Any, one: Any, other: Any
) -> None:
    found = []
    for value in (one, deepcopy(one), other):
        monkeypatch.setitem(globals(), "BETA", value)
        found.append(loss_fingerprint(loss))
    assert found[0] == found[1] != found[2]
    before = loss_fingerprint(loss_twice)
    monkeypatch.setitem(globals(), "BETA", 3)
    assert loss_fingerprint(loss_twice) == before  # which does not read it


class Trainer:
    kind = 1

    def __init__(self, beta: Any, started: float = 0.0) -> None:
        self.beta, self._gamma, self.started = beta, beta, started

    def loss(self, model: Any, batch: Any) -> Any:
        return self.beta * token_cross_entropy(model, batch)

    def private(self, model: Any, batch: Any) -> Any:
        return self._scaled(token_cross_entropy(model, batch))

    def _scaled(self, x: Any) -> Any:
        return self._gamma * x

    def __call__(self, model: Any, batch: Any) -> Any:
        return self._scaled(1)


class ModuleLoss(torch.nn.Module):
    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self.ce = torch.nn.CrossEntropyLoss(label_smoothing=smoothing)

    def forward(self, model: Any, batch: Any) -> Any:
        return self.ce(model, batch)


def keyword(weight: Any) -> Any:
    def loss(model: Any, batch: Any, *, weight: Any = weight) -> Any:
        return weight

    return loss


@pytest.mark.parametrize(
    "make",
    [
        keyword,
        lambda beta: Trainer(beta).loss,
        lambda beta: Trainer(beta).private,
        Trainer,
        lambda beta: partial(Trainer(beta).loss),
        lambda beta: partial(scaled_loss, scale={"a": beta}),
        lambda beta: ModuleLoss(beta / 10),
        lambda beta: torch.nn.CrossEntropyLoss(label_smoothing=beta / 10),
        lambda beta: lambda model, batch: torch.tensor([beta]) if model else Trainer(beta),
        lambda beta: partial(scaled_loss, torch.tensor([1.0, beta])),
    ],
)
def test_what_a_loss_reads_of_its_object_and_keywords_is_part_of_it(make: Any) -> None:
    assert loss_fingerprint(make(1.0)) == loss_fingerprint(make(1.0)) != loss_fingerprint(make(10.0 / 2))


def test_what_a_method_does_not_read_is_not_part_of_it() -> None:
    assert loss_fingerprint(Trainer(1.0, 5.0).loss) == loss_fingerprint(Trainer(1.0, 6.0).loss)


def test_a_docstring_is_not_part_of_a_loss() -> None:
    def compiled(doc: str, scale: str = "'a'") -> Any:
        scope: dict[str, Any] = {}
        inner = f"    def inner(x):\n        {doc}\n        return x\n"
        exec(f"def loss(model, batch):\n    {doc}\n{inner}    return inner(model)(batch, {scale}, None)\n", scope)
        return loss_fingerprint(scope["loss"])

    assert compiled('"one"') == compiled('"another"')
    assert compiled('"one"') != compiled('"one"', "'b'")


class Hidden:
    """A loss that depends on what no fingerprint sees."""

    def __init__(self) -> None:
        self.hidden = np.ones(10_000_000, dtype=np.int8)  # too large to be read for a fingerprint

    def __call__(self, model: Any, batch: Any) -> Any:
        return float(self.hidden[0]) * token_cross_entropy(model, batch)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("mode", ["query", "matrix"])
def test_a_row_of_each_side_is_made_again_and_must_be_what_is_stored(world: World, mode: str, dtype: str) -> None:
    loss = Hidden()
    options = {"store": world.store, "loss": loss, "audit": "first", "mode": mode, "dtype": dtype}
    wanted = world.attribute(**options)
    before = files(world.store)
    with counting(sdi.fast.Featurizer, "features", lambda make, batch, ids=(): tuple(ids)) as calls:
        assert_same_result(world.attribute(**options), wanted)
    assert calls == [("t-0",), ("q-0",)]
    loss.hidden[0] = 2
    words = (
        r"^train example 't-0' at checkpoint .*/step-9.safetensors is not stored as it is made now: the two differ by "
        r"0.[23]\d* of their size .*; the features in .* were made by other code or other kernels; use a new folder$"
    )
    with pytest.raises(StoreError, match=words):
        world.attribute(**options)
    with pytest.raises(StoreError, match=r"^query example 'q-0' at"):
        world.attribute(**options, train=make_batches(2, "new", seed=8))
    world.attribute(**{**options, "audit": "off"})
    for name, content in before.items():
        assert (world.store / name).read_bytes() == content


def test_the_row_that_is_made_again_is_one_that_is_stored(world: World) -> None:
    world.attribute(store=world.store, audit="first", train=[{k: v[2:] for k, v in TRAIN[0].items()}], query=TRAIN[2:])
    with counting(sdi.fast.Featurizer, "features", lambda make, batch, ids=(): tuple(ids)) as calls:
        world.attribute(store=world.store, audit="first")
    assert calls[0] == ("t-2",)


def test_training_mode_and_private_state_are_not_part_of_a_model() -> None:
    model = make_model()
    before = model_fingerprint(model)
    model.eval()._cache = 3
    assert model_fingerprint(model) == before
    model.core[0].attn.scale = 2.0
    assert model_fingerprint(model) != before


@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing", "relabelled"])
@pytest.mark.parametrize("which", [0, 2])
def test_a_damaged_shard_is_named_and_can_be_made_again(filled: World, harm: str, which: int) -> None:
    wanted, before = filled.attribute(store=filled.store), files(filled.store)
    shard = shards(filled.store)[which]
    content = bytearray(shard.read_bytes())
    if harm == "missing":
        shard.unlink()
    elif harm == "relabelled":
        sidecar = shard.with_suffix(".json")
        sidecar.write_text(sidecar.read_text().replace(' 3\n ],\n "sha256"', ' 2\n ],\n "sha256"'))
        assert sidecar.read_bytes() != before[str(sidecar.relative_to(filled.store))]
    else:
        content[len(content) * 2 // 3] ^= 1
        shard.write_bytes(content if harm == "flipped" else content[:-1])
    with pytest.raises(StoreError, match=f"^shard {shard} is missing, truncated or altered; delete it with its .json"):
        filled.attribute(store=filled.store)
    shard.unlink(missing_ok=True)
    shard.with_suffix(".json").unlink()
    with featurized() as calls:
        result = filled.attribute(store=filled.store, shard=3)
    assert 0 < len(flat(calls)) <= 3
    assert files(filled.store) == before
    assert_same_result(result, wanted)


def test_a_broken_json_is_named(filled: World) -> None:
    sidecar = shards(filled.store)[1].with_suffix(".json")
    whole = sidecar.read_text()
    for key in ("tau", "ids"):
        sidecar.write_text(json.dumps(json.loads(whole) | {key: None}))
        with pytest.raises(StoreError, match=f"{sidecar} was altered; delete it"):
            filled.attribute(store=filled.store)
    for text in (whole[:-20], "[]", whole.replace('"tau"', '"tao"'), whole.replace('  "t-0",\n', "")):
        if text == whole:
            continue
        sidecar.write_text(text)
        with pytest.raises(StoreError, match=f"{sidecar} was (truncated or )?altered; delete it"):
            filled.attribute(store=filled.store)
    manifest = json.loads((filled.store / "manifest.json").read_text())
    for config in ({}, [], {"dtype": "int8"}):
        (filled.store / "manifest.json").write_text(json.dumps(manifest | {"config": config}))
        with pytest.raises(StoreError, match=r"manifest.json was altered; use a new folder$"):
            Store(filled.store)
    (filled.store / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match=r"manifest.json was truncated or altered"):
        Store(filled.store)


@pytest.mark.parametrize(("version", "newer"), [(2, True), (0, False), (None, False), ("1", False)])
def test_a_store_of_another_version_is_refused(filled: World, version: Any, newer: bool) -> None:
    manifest = filled.store / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": version}))
    before = files(filled.store)
    words = f"has version {version}, this sdi reads version 1{'; it was written by a newer one' if newer else ''}$"
    for use in (lambda: Store(filled.store), lambda: filled.attribute(store=filled.store)):
        with pytest.raises(StoreError, match=words):
            use()
    assert files(filled.store) == before


def test_a_folder_that_is_no_store_is_refused_and_untouched(world: World) -> None:
    world.store.mkdir()
    (world.store / "thesis.tex").write_text("ten years")
    with pytest.raises(StoreError, match=r"is not a store and not empty \(it holds 'thesis.tex'\); give a new folder$"):
        world.attribute(store=world.store)
    assert [p.name for p in world.store.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match=r"thesis.tex is a file, not a store; give a folder"):
        world.attribute(store=world.store / "thesis.tex")
    with pytest.raises(StoreError, match=r"is not a store: it has no manifest.json"):
        Store(world.store)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    "refused",
    [
        {"train": []},
        {"m": 0},
        {"seed": 0.5},
        {"mode": "both"},
        {"dtype": "int8"},
        {"audit": "never"},
        {"family": "other"},
        {"loop": Loop("nothing", "inject")},
        {"eta": [1.0]},
        {"checkpoints": "nowhere/*"},
        {"train": [*TRAIN[:1], *TRAIN[:1]]},
        {"loss": lambda model, batch: token_cross_entropy(model, batch).mean()},
    ],
    ids=lambda refused: next(iter(refused)),
)
def test_a_refused_call_leaves_nothing_behind(world: World, refused: dict[str, Any], there: bool) -> None:
    place = world.folder / "runs/a/b"
    if there:
        place.mkdir(parents=True)
    with pytest.raises((ValueError, TypeError)):
        world.attribute(store=place, shard=256, **refused)
    assert (list(place.iterdir()) == []) if there else not (world.folder / "runs").exists()


def test_a_store_in_use_is_refused_with_the_process_that_uses_it(filled: World) -> None:
    before = files(filled.store)
    code = (
        f"import fcntl, os, sys; h = os.open({str(filled.store / 'lock')!r}, os.O_RDWR); fcntl.flock(h, fcntl.LOCK_EX);"
        "os.ftruncate(h, 0); os.write(h, str(os.getpid()).encode()); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"is being written by process {other.pid}; wait, or use another folder$"):
            filled.attribute(store=filled.store, query=make_batches(1, "new", seed=8))
    assert files(filled.store) == before
    filled.attribute(store=filled.store)


def test_two_writers_in_one_process_are_refused_too(filled: World) -> None:
    def again(progress: Any) -> None:
        filled.attribute(store=filled.store)

    with pytest.raises(StoreError, match=f"is being written by process {os.getpid()}"):
        filled.attribute(store=filled.store, progress=again)


def test_a_full_disk_leaves_finished_shards_valid_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = world.attribute(store=world.folder / "whole", shard=2)
    whole, before = files(world.folder / "whole"), os.fsync
    room = 0

    def full(handle: int) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    for k in (0, 1, 2, 7, 12):
        room = k
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(
            OSError, match=r"the disk is full: .* was not written; what was finished before is valid, run"
        ):
            world.attribute(store=world.store, shard=2)
        monkeypatch.setattr(os, "fsync", before)
        assert files(world.store).items() <= whole.items() if world.store.exists() else k == 0
    assert_same_result(world.attribute(store=world.store, shard=2), wanted)
    assert files(world.store) == whole


def test_files_of_others_in_the_folder_are_left_alone(filled: World) -> None:
    (key,) = (p.name for p in filled.store.iterdir() if p.name.startswith("step-9"))
    theirs = [
        "download.part",
        "checkpoints/shard-00001-of-00002.safetensors",
        "checkpoints/download.part",
        "checkpoints/train/shard-00001.safetensors",
        f"{key}/train/notes.part",
        f"{key}/other/shard-00000.safetensors",
    ]
    ours = [
        "manifest.json.part",
        "run.toml.part",
        f"{key}/train/shard-00003.safetensors.part",
        f"{key}/train/shard-00003.json.part",
        f"{key}/query/shard-00009.safetensors",
    ]
    for name in (*theirs, *ours):
        (filled.store / name).parent.mkdir(parents=True, exist_ok=True)
        (filled.store / name).write_text("precious")
    filled.attribute(store=filled.store)
    assert [name for name in theirs if not (filled.store / name).is_file()] == []
    assert [name for name in ours if (filled.store / name).is_file()] == []


def test_a_home_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(world.folder))
    monkeypatch.chdir(world.folder)
    result = world.attribute(store="~/store")
    result.save("~/result.safetensors")
    assert_same_result(sdi.load("~/result.safetensors"), result)
    assert Store("~/store").path == world.store
    assert not (world.folder / "~").exists()


def test_an_error_without_a_place_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(handle: int) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(os, "fsync", limited)
    with pytest.raises(OSError, match=r"File too large: '.*/file'$"):
        write_whole(tmp_path / "file", b"")
    assert files(tmp_path) == {}


def test_what_is_written_is_flushed_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    for name in ("fsync", "replace"):
        before = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, before=before: (order.append(name), before(*a))[1])
    write_whole(tmp_path / "file", b"content")
    assert order == ["fsync", "replace", "fsync"]  # the content, the name, the folder
    assert files(tmp_path) == {"file": b"content"}


def test_another_error_of_the_disk_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere/file", b"")


def test_float16_keeps_three_digits_whatever_the_size(world: World) -> None:
    def scaled(scale: float) -> Any:
        return lambda model, batch: scale * token_cross_entropy(model, batch)

    for scale in (1e-9, 1.0, 1e9):
        wanted = world.attribute(loss=scaled(scale))
        result = world.attribute(loss=scaled(scale), dtype="float16", mode="query")
        norm = np.abs(wanted.sdi.values).max()
        assert 0 < np.abs(result.sdi.values - wanted.sdi.values).max() <= 2e-3 * norm
        assert_close(result.stderr.values, wanted.stderr.values, rtol=2e-3)


def test_float16_keeps_three_digits_of_every_step_however_small(tmp_path: Path) -> None:
    """Gradients may shrink a thousandfold from step to step; zero is for steps that cannot act."""
    sketch = SketchMap.draw({"w": (20, 20)}, 16)
    values = np.random.default_rng(0).normal(size=(3, 5, 16)) * 10.0 ** -np.array([0, 4, 8, 12, 20])[:, None]
    values[1, 2:] = 0
    outside = values[:, 4] * 1e-3
    features = Features(values, np.array([5, 2, 5]), sketch.blocks, sketch.label, outside)
    store = Store.create(tmp_path / "store", sketch, {"dtype": "float16"})
    with store.writing():
        store.append("c", "query", features, ["a", "b", "c"])
    again = Store(tmp_path / "store").read("c", "query", features.ids)
    for x, y in ((again.values, values), (again.outside, outside)):
        assert (np.abs(x - y) <= 2.0**-11 * np.abs(y).max(axis=-1, keepdims=True)).all()
        assert ((x == 0).all(axis=-1) == (y == 0).all(axis=-1)).all()
    old = {"values": np.ones((2, 3, 4), np.float16), "scale": np.array([2.0, 8.0], np.float32)}
    np.testing.assert_array_equal(decoded(old, "values", slice(0, 2))[:, 0, 0], [2.0, 8.0])  # of an earlier version


def test_float16_halves_the_store(world: World) -> None:
    sizes = []
    for dtype in ("float32", "float16"):
        world.attribute(store=world.folder / dtype, dtype=dtype)
        values = [load_file(p)["values"] for p in shards(world.folder / dtype)]
        assert {str(v.dtype) for v in values} == {dtype}
        sizes.append(sum(v.nbytes for v in values))
    assert sizes[1] * 2 == sizes[0]


def test_features_too_large_for_the_dtype_are_refused(tmp_path: Path) -> None:
    sketch = SketchMap.keep({"w": (3,)})
    for dtype in ("float32", "float16"):
        store = Store.create(tmp_path / dtype, sketch, {"dtype": dtype})
        huge = Features(np.full((2, 3), 1e300), np.ones(2, int), sketch.blocks, sketch.label)
        with store.writing(), pytest.raises(StoreError, match=r"do not fit into float.*; use dtype='float64'"):
            store.append("a", "train", huge, ["x", "y"])
        assert not (tmp_path / dtype).exists()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_read_is_what_was_written(tmp_path: Path, dtype: str) -> None:
    sketch = SketchMap.keep({"w": (2, 2), "b": (3,)})
    rng = np.random.default_rng(0)
    store = Store.create(tmp_path / "s", sketch, {"dtype": dtype})
    values = rng.integers(-9, 9, (5, 4, 7)) * 2.0 ** rng.integers(-40, 40, (5, 1, 1))
    tau = np.array([1, 2, 3, 4, 4])
    values[np.arange(4) >= tau[:, None]] = 0
    outside = rng.integers(-9, 9, (5, 7)).astype(float)
    outside[0], values[0] = 0, 0
    ids = tuple("abcde")
    with store.writing():
        for rows, out in ((slice(0, 2), None), (slice(2, 5), outside[2:5])):
            part = values[rows, : tau[rows].max()]
            store.append(
                "k", "query", Features(part, tau[rows], sketch.blocks, sketch.label, out, ids[rows]), ids[rows]
            )
    order = ["d", "a", "c", "b"]
    for reader in (store, Store(tmp_path / "s")):
        read = reader.read("k", "query", order)
        rows = [3, 0, 2, 1]
        assert read.ids == tuple(order)
        assert read.tau.tolist() == tau[rows].tolist()
        wanted_outside = np.where(np.array(rows)[:, None] >= 2, outside[rows], 0)
        scale = np.maximum(np.abs(values[rows]).max(axis=(1, 2)), np.abs(wanted_outside).max(axis=1))[:, None]
        tolerance = (1e-3 if dtype == "float16" else 0) * scale
        assert (np.abs(read.values - values[rows]) <= tolerance[..., None]).all()
        assert read.outside is not None
        assert (np.abs(read.outside - wanted_outside) <= tolerance).all()
    with pytest.raises(ValueError, match=r"^no query example 'f' among the 5 stored$"):
        store.read("k", "query", ["f"])


def test_features_of_another_sketch_are_refused(tmp_path: Path) -> None:
    sketch, other = (SketchMap.draw({"w": (9, 9)}, 16, seed) for seed in (0, 1))
    store = Store.create(tmp_path / "s", sketch, {"dtype": "float32"})
    with store.writing(), pytest.raises(sdi.SketchMismatch, match=r"is for sketch .*seed=0.*, got .*seed=1"):
        store.append("a", "train", Features(np.ones((1, 16)), np.ones(1, int), other.blocks, other.label), ["x"])


def test_each_repeat_has_a_store_of_its_own(world: World) -> None:
    result = world.attribute(store=world.store, repeats=2)
    assert sorted(p.name for p in world.store.iterdir()) == ["seed-0", "seed-1"]
    with featurized() as calls:
        assert_same_result(world.attribute(store=world.store, repeats=2), result)
    assert not calls
    one = world.folder / "one"
    world.attribute(store=one)
    with pytest.raises(StoreError, match="is a store of one sketch; repeats=2 needs a folder of its own"):
        world.attribute(store=one, repeats=2)


def test_without_a_store_nothing_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(world.folder))
    before = sorted(world.folder.iterdir())
    world.attribute()
    assert sorted(world.folder.iterdir()) == before
