"""Folders of torch.distributed.checkpoint: put together exactly, with eta; no code runs, harm is noticed."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from attribution_cases import World, world
from share_cases import ENDED, in_children
from torch import Tensor, nn

from sdi import find_checkpoints
from sdi.inputs.checkpoints import shows_adam

__all__ = ["world"]
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed.*:UserWarning", "ignore:.*fork.*:DeprecationWarning")


def save(*args: Any, **kwargs: Any) -> None:
    from torch.distributed.checkpoint import save  # here and below: a second, which only one worker should spend

    save(*args, **kwargs)


def save_folder(path: Path, content: dict[str, Any], eta: float | None = 0.5) -> Path:
    save(content, checkpoint_id=path, no_dist=True)
    if eta is not None:
        path.with_suffix(".json").write_text(f'{{"eta": {eta}}}')
    return path


def same(weights: dict[str, Tensor], state: dict[str, Tensor]) -> bool:
    return weights.keys() == state.keys() and all(
        torch.equal(w, state[name]) and w.dtype == state[name].dtype for name, w in weights.items()
    )


def test_the_weights_are_found_wherever_they_were_saved_and_of_every_type(tmp_path: Path) -> None:
    kinds = (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.complex64)
    state: dict[str, Tensor] = {f"a.{k}": torch.arange(6).reshape(2, 3).to(kind) for k, kind in enumerate(kinds)}
    state |= {"scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4), "turned": torch.arange(6.0).reshape(2, 3).T}
    for k, content in enumerate((state, {"model": state, "step": 3}, {"app": {"model": state, "optim": {}}})):
        (point,) = find_checkpoints(save_folder(tmp_path / f"step-{k}", content))
        assert same(point.weights(), state)
        assert point.eta == 0.5
        assert point.key.startswith(f"step-{k}-")


@pytest.mark.slow
def test_a_run_with_folders_gives_the_result_of_files(world: World) -> None:
    wanted = world.attribute(checkpoints=world.folder / "ckpt/*.safetensors")
    for path, point in zip(world.paths, world.points, strict=True):
        save({"model": point.state_dict()}, checkpoint_id=path.with_suffix(""), no_dist=True)
    found = world.attribute(checkpoints=world.folder / "ckpt/*0"), world.attribute(checkpoints=world.folder / "ckpt/*9")
    parts = [wanted.by_checkpoint.values[k] for k in (1, 0)]
    for result, part in zip(found, parts, strict=True):
        assert (result.by_checkpoint.values[0] == part).all()


def adam(model: nn.Module, *rates: float) -> torch.optim.Optimizer:
    named = list(model.named_parameters())
    groups = [{"params": named[k :: len(rates)], "lr": rate} for k, rate in enumerate(rates)]
    optimiser = torch.optim.Adam(groups)
    sum(p.sum() for p in model.parameters()).backward()  # type: ignore[union-attr]
    optimiser.step()
    return optimiser


def test_eta_is_the_optimisers_or_the_saved_one_and_asked_for_where_there_is_none(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    optimiser = adam(model, 0.1, 0.2)
    rates = {"weight": 0.1, "bias": 0.2}
    unnamed = torch.optim.Adam([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.2}])
    unnamed.step()
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

    state, moments = get_state_dict(model, unnamed)
    assert "param_names" not in moments["param_groups"][0]
    flat = get_state_dict(model, optimiser, options=StateDictOptions(flatten_optimizer_state_dict=True))[1]
    for k, (content, eta) in enumerate(
        (
            ({"model": state, "optimizer": moments}, rates),
            ({"app": {"model": state, "optim": flat}}, rates),
            ({"model": model.state_dict(), "optimizer": optimiser.state_dict()}, rates),
            ({"model": state, "optimizer": adam(model, 0.3).state_dict()}, 0.3),
            ({"model": state, "optimizer": torch.optim.SGD(model.parameters(), lr=0.3).state_dict()}, 0.3),
            ({"model": state, "eta": 0.4}, 0.4),
            ({"model": state, "eta": rates}, rates),
        )
    ):
        folder = save_folder(tmp_path / f"step-{k}", content, None)
        (point,) = find_checkpoints(folder)
        assert point.eta == pytest.approx(eta)
        assert shows_adam(folder) == (k < 4)
    with pytest.raises(
        ValueError, match=r"no eta for checkpoint .*/step-9: give eta=.* step-9.json beside it, or save"
    ):
        find_checkpoints(save_folder(tmp_path / "step-9", {"model": state}, None))


def test_an_optimiser_unlike_torchs_says_nothing_of_eta_and_does_not_stand_in_the_way(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "step-9", {"model": {"w": torch.ones(2)}, "optimizer": {"param_groups": 3}}, None)
    with pytest.raises(ValueError, match="no eta for checkpoint"):
        find_checkpoints(folder)
    assert find_checkpoints(folder, eta=[0.1])[0].weights().keys() == {"w"}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_tensors_that_two_ranks_wrote_are_put_together_exactly(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 1)).double()  # 7 rows are dealt 4 and 3, one row 1 and 0
    wanted = {name: w.clone() for name, w in model.state_dict().items()}
    folder = tmp_path / "step-9"

    def rank(k: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        meeting = f"file://{tmp_path / 'meeting'}"
        dist.init_process_group("gloo", init_method=meeting, rank=k, world_size=2, timeout=timedelta(seconds=60))
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
        save({"model": model.state_dict()}, checkpoint_id=folder)
        dist.barrier()

    assert in_children([lambda: rank(0), lambda: rank(1)]) == [ENDED, ENDED]
    assert sorted(path.name for path in folder.glob("*.distcp")) == ["__0_0.distcp", "__1_0.distcp"]
    (point,) = find_checkpoints(folder, eta=[0.1])
    assert same(point.weights(), wanted)
    one, two = folder / "__0_0.distcp", folder / "__1_0.distcp"
    content = one.read_bytes(), two.read_bytes()
    one.write_bytes(content[1])
    two.write_bytes(content[0])
    with pytest.raises(ValueError, match=r"__0_0.distcp was truncated|does not hold what .metadata says"):
        find_checkpoints(folder, eta=[0.1])[0].weights()
    one.write_bytes(content[0])
    two.unlink()
    with pytest.raises(ValueError, match=r"names '__1_0.distcp', which is not a file in its folder"):
        find_checkpoints(folder, eta=[0.1])


def test_files_of_like_layout_that_changed_places_have_another_fingerprint(tmp_path: Path) -> None:
    from torch.distributed.checkpoint import FileSystemWriter

    state = {"a": torch.zeros(2), "b": torch.ones(2)}
    writer = FileSystemWriter(tmp_path / "step-9", single_file_per_rank=False, sync_files=False)
    save(state, storage_writer=writer, no_dist=True)
    (before,) = find_checkpoints(tmp_path / "step-9", eta=[0.1])
    assert same(before.weights(), state)
    one, two = sorted((tmp_path / "step-9").glob("*.distcp"))
    one.rename(tmp_path / "kept")
    two.rename(one)
    (tmp_path / "kept").rename(two)
    (after,) = find_checkpoints(tmp_path / "step-9", eta=[0.1])
    assert after.fingerprint != before.fingerprint


def saved(tmp_path: Path) -> Path:
    return save_folder(tmp_path / "step-9", {"model": {"w": torch.arange(6.0).reshape(3, 2), "b": torch.ones(3)}})


class Payload:
    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.made}",)


@pytest.mark.parametrize("where", ["whole", "in storage_meta", "in a shape"])
def test_a_metadata_that_would_run_code_is_refused_and_does_not(tmp_path: Path, where: str) -> None:
    folder, made = saved(tmp_path), tmp_path / "made"
    path = folder / ".metadata"
    content = pickle.loads(path.read_bytes())
    if where == "in storage_meta":
        content.storage_meta.modules = [Payload(made)]
    elif where == "in a shape":
        content.state_dict_metadata["model.w"].size = Payload(made)
    path.write_bytes(pickle.dumps(Payload(made) if where == "whole" else content))
    with pytest.raises(
        ValueError, match=r"\.metadata is refused, because it names (posix|nt)\.system, which .* run code"
    ):
        find_checkpoints(folder)
    assert not made.exists()
    pickle.loads(path.read_bytes())  # the payload works
    assert made.exists()


def test_a_piece_that_would_run_code_is_refused_and_does_not(tmp_path: Path) -> None:
    made = tmp_path / "made"
    folder = save_folder(tmp_path / "step-9", {"model": {"w": torch.ones(2)}, "eta": Payload(made)}, None)
    with pytest.raises(ValueError, match=r"__0_0.distcp is refused, because it holds more than tensors"):
        find_checkpoints(folder)
    assert not made.exists()


def test_a_number_that_was_harmed_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    path = folder / "__0_0.distcp"
    content = path.read_bytes()
    k = content.index(torch.arange(6.0).numpy().tobytes())
    path.write_bytes(content[:k] + b"\1" + content[k + 1 :])
    with pytest.raises(ValueError, match=r"__0_0.distcp cannot be read.* has another checksum than when it was saved"):
        find_checkpoints(folder)[0].weights()


def change(folder: Path, edit: Callable[[Any], Any]) -> None:
    path = folder / ".metadata"
    content = pickle.loads(path.read_bytes())
    content = edit(content) or content
    path.write_bytes(pickle.dumps(content))


def w(content: Any) -> Any:
    return content.state_dict_metadata["model.w"]


def info(content: Any, **changes: Any) -> None:
    (key,) = [key for key in content.storage_data if key.fqn == "model.w"]
    before = content.storage_data[key]
    content.storage_data[key] = type(before)(**{**vars(before), **changes})


def taller(content: Any) -> None:
    w(content).size = torch.Size([10**15, 2])
    w(content).chunks[0].sizes = torch.Size([10**15, 2])


def overlapping(content: Any) -> None:
    from torch.distributed.checkpoint import metadata as written

    (key,) = [key for key in content.storage_data if key.fqn == "model.w"]
    w(content).size = torch.Size([6, 2])
    w(content).chunks.append(written.ChunkStorageMetadata(torch.Size([1, 0]), torch.Size([3, 2])))
    content.storage_data[written.MetadataIndex("model.w", [1, 0])] = content.storage_data[key]


def retyped(content: Any) -> None:
    w(content).properties.dtype = torch.float64


def other_place(content: Any) -> None:
    (key,) = [key for key in content.storage_data if key.fqn == "model.b"]
    info(content, **vars(content.storage_data[key]))


HARMS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "outside": (lambda c: info(c, relative_path="../step-9/__0_0.distcp"), "which is not a file in its folder"),
    "beyond": (lambda c: info(c, offset=10**6), "__0_0.distcp was truncated"),
    "negative": (lambda c: info(c, offset=-1), "expected a number of bytes or rows, got -1"),
    "transformed": (
        lambda c: info(c, transform_descriptors=["zstd"]),
        "transformed by .'zstd'., which is not supported",
    ),
    "short": (lambda c: info(c, length=40), "cannot be read, it may be truncated|cannot be read: it was truncated"),
    "another's bytes": (
        other_place,
        r"a piece of 'model.w' must be \(\(3, 2\), torch.float32\), got \(\(3,\), torch.f",
    ),
    "another type": (retyped, r"a piece of 'model.w' must be \(\(3, 2\), torch.float64\), got"),
    "larger than its bytes": (taller, "a piece of 'model.w' .* has no room"),
    "too few pieces": (lambda c: setattr(w(c), "size", torch.Size([4, 2])), "have 6 numbers, not the 8 of its shape"),
    "beyond the shape": (lambda c: setattr(w(c), "size", torch.Size([2, 3])), "a piece of 'model.w' .* has no room"),
    "overlapping": (overlapping, "two pieces of 'model.w' overlap"),
    "not stored": (lambda c: c.storage_data.clear(), "KeyError"),
    "no metadata": (lambda c: {"model": 1}, "expected Metadata, got"),
    "odd names": (lambda c: c.planner_data.update({"model.w": ((1,),)}), "the place of 'model.w' is"),
    "two at one place": (lambda c: c.planner_data.update({"model.w": ("model", "b")}), "the place of 'model.b' is"),
    "inside another": (
        lambda c: c.planner_data.update({"model.w": ("model", "b", "w")}),
        r"two entries are at, or within, \('model', 'b",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_harm_is_refused_by_name(tmp_path: Path, harm: str) -> None:
    folder = saved(tmp_path)
    edit, words = HARMS[harm]
    change(folder, edit)
    with pytest.raises(ValueError, match=rf"^checkpoint .*/step-9/.*({words})"):
        find_checkpoints(folder)[0].weights()


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
def test_a_truncated_or_changed_file_is_refused_or_noticed(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path)
    (before,) = find_checkpoints(folder)
    wanted, content = before.weights(), (folder / name).read_bytes()
    for end in range(0, len(content), 97):
        (folder / name).write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"^checkpoint .*/step-9/"):
            find_checkpoints(folder)[0].weights()
    for k in range(0, len(content), 61):
        (folder / name).write_bytes(content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :])
        with suppress(ValueError):
            (after,) = find_checkpoints(folder)
            assert after.fingerprint != before.fingerprint
            assert {n: w.shape for n, w in after.weights().items()} == {n: w.shape for n, w in wanted.items()}


def test_a_piece_named_by_itself_is_refused_and_beside_its_folder_passed_over(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    with pytest.raises(
        ValueError, match=r"names no file that can be read: __0_0.distcp is a part of a .*; name the folder"
    ):
        find_checkpoints(folder / "*")
    assert [point.path for point in find_checkpoints(tmp_path / "**")] == [folder]
