"""Groups: a group's score is the sum of its members', with the error bar of one product; ranked, and as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attribution_cases import World, assert_close, world
from cli_cases import call, call_json

import sdi
from sdi import Store, find_checkpoints
from sdi.fast import token_cross_entropy
from sdi.inputs.groups_file import read_groups
from sdi.result import groups as module

__all__ = ["world"]
GROUPS = {f"t-{k}": "abc"[k % 3] for k in range(7)}
ROWS = {"a": [0, 3, 6], "b": [1, 4], "c": [2, 5]}


def scored(world: World, groups: Any = GROUPS, **changes: Any) -> tuple[sdi.Groups, sdi.Result]:
    result = world.attribute(store=world.store, **changes)
    points = find_checkpoints(world.folder / "ckpt/*.safetensors")
    return sdi.group_scores(Store(world.store), points, groups, stderr=changes.get("stderr", "auto")), result


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"m": None}, {"dtype": "float16"}, {"mode": "matrix"}], ids=["sketched", "whole", "half", "matrix"]
)
@pytest.mark.parametrize("chunk", [1, 64 << 20])
def test_a_groups_score_is_the_sum_of_its_members(
    world: World, changes: dict[str, Any], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", chunk)
    found, result = scored(world, **changes)
    members = result.sdi.sum("train_step").values if result.mode == "matrix" else result.sdi_values
    rtol = 1e-12 if members.dtype == np.float64 else 1e-5
    assert found.sdi.dims == found.energy.dims == ("group", "query", "step")
    for name, rows in ROWS.items():
        assert_close(found.sdi.sel(group=name).values, members[rows].sum(axis=0), rtol=rtol)
        assert_close(found.energy.sel(group=name).values, np.abs(members[rows]).sum(axis=0), rtol=rtol)
        assert_close(found.tracin.sel(group=name).values, result.tracin_values[rows].sum(axis=0), rtol=rtol)
    assert found.sizes == {"a": 3, "b": 2, "c": 2}
    if changes.get("m", 32) is None:
        assert not found.stderr.values.any()


@pytest.mark.slow
def test_a_group_of_one_has_the_error_bar_of_its_member(world: World) -> None:
    for changes in ({}, {"stderr": "bound"}, {"dtype": "float16", "store": world.folder / "half"}):
        store = changes.pop("store", world.store)
        result = world.attribute(store=store, **changes)
        points = find_checkpoints(world.folder / "ckpt/*.safetensors")
        found = sdi.group_scores(Store(store), points, lambda i: i, stderr=changes.get("stderr", "auto"))
        assert_close(found.stderr.values, result.stderr.values, rtol=1e-5)
        assert_close(found.tracin_stderr.values, result.tracin_stderr.values, rtol=1e-5)


def test_the_error_bar_is_that_of_one_product_not_a_sum_of_bars(world: World) -> None:
    """By hand, from the bound: the norm of the summed gradients, parameter by parameter."""
    from sdi.sketch.bounds import worst_case

    found, result = scored(world, stderr="bound")
    store, wanted = Store(world.store), np.zeros((3, len(result.labels["query"]), 3))
    for eta, point in zip((0.5, 0.25), result.labels["checkpoint"], strict=True):
        g = store.read(point, "train", [f"t-{k}" for k in range(7)]).g
        phi = store.read(point, "query", result.labels["query"]).phi
        total = np.stack([g[rows].sum(axis=0) for rows in ROWS.values()])
        variance: Any = 0.0
        for b in store.blocks:
            a, c = (np.square(x[..., b.start : b.stop], dtype=np.float64).sum(axis=-1) for x in (total, phi))
            variance = variance + worst_case(store.sketch.sketches[b.name]) * a[:, None, None] * c[None]
        wanted += eta * np.sqrt(variance)
    assert_close(found.stderr.values, wanted, rtol=1e-5)
    added = np.stack([result.stderr.values[rows].sum(axis=0) for rows in ROWS.values()])
    assert (found.stderr.values <= added * (1 + 1e-6)).all()
    assert (found.stderr.values < 0.95 * added).any()


@pytest.mark.slow
def test_the_rounding_of_every_member_is_in_a_groups_error_bar(world: World) -> None:
    """Without a sketch, what float16 rounds off is all of the error: by hand, parameter by parameter."""
    found, result = scored(world, m=None, dtype="float16")
    store, wanted, u = Store(world.store), np.zeros((3, len(result.labels["query"]), 3)), 2.0**-11
    for eta, point in zip((0.5, 0.25), result.labels["checkpoint"], strict=True):
        g = store.read(point, "train", [f"t-{k}" for k in range(7)]).g.astype(np.float64)
        phi = store.read(point, "query", result.labels["query"]).phi.astype(np.float64)
        variance: Any = 0.0
        for b in store.blocks:
            part, asked = g[:, b.start : b.stop], np.square(phi[..., b.start : b.stop]).sum(axis=-1)
            rounded = np.stack([np.square(part[rows]).sum() for rows in ROWS.values()])
            whole = np.stack([np.square(part[rows].sum(axis=0)).sum() for rows in ROWS.values()])
            variance = variance + u**2 * (rounded + whole)[:, None, None] * asked[None]
        wanted += eta * np.sqrt(variance)
    assert_close(found.stderr.values, wanted, rtol=1e-5)


@pytest.mark.slow
def test_groups_are_ranked_by_sum_size_and_energy(world: World) -> None:
    found, _ = scored(world)
    by_hand = {
        "signed": found.tracin.sel(query="q-1").to_pandas(),
        "absolute": found.tracin.sel(query="q-1").to_pandas().abs(),
        "energy": found.energy.sel(query="q-1").sum("step").to_pandas(),
    }
    for by, scores in by_hand.items():
        top = found.top(3, query="q-1", by=by)
        assert [row.train for row in top] == list(scores.sort_values(ascending=False).index)
        assert (top.what, str(top).splitlines()[1].split()[1]) == ("group", "group")
    energies = found.top(3, query="q-1", by="energy")
    assert all(np.isnan(row.stderr) and not row.tied for row in energies)  # no error bar is known, which is not 0
    assert str(energies).splitlines()[2].endswith(f"{energies.rows[0].score:+.4g}")
    table = found.to_pandas("q-1")
    assert table.loc["b", "members"] == 2
    assert table.loc["b", "step 2"] == found.sdi.sel(group="b", query="q-1", step=2)
    assert table.loc["b", "energy"] == pytest.approx(float(found.energy.sel(group="b", query="q-1").sum()))
    some = found.top(2, query="q-1", steps=slice(2, 3), by="energy")
    assert some.rows[0].score == pytest.approx(float(found.energy.sel(query="q-1", step=slice(2, 3)).sum("step").max()))


def test_who_has_no_group_is_left_out_or_named(world: World) -> None:
    found, _ = scored(world, {**GROUPS, "t-0": None, "t-3": None, "t-6": None})
    assert list(found.sizes) == ["b", "c"]
    with pytest.raises(ValueError, match=r"^groups must name every training example; 't-4' has none \(1 do not\)"):
        scored(world, {i: g for i, g in GROUPS.items() if i != "t-4"})
    with pytest.raises(ValueError, match="at least one training example, got None for all"):
        scored(world, lambda i: None)
    store, points = Store(world.store), find_checkpoints(world.folder / "ckpt/*.safetensors")
    for changes, words in (({"queries": "q-1"}, r"queries must be a list of ids, got 'q-1'; write \['q-1'\]"),
                           ({"train": []}, "train must be a list of ids"),
                           ({"checkpoints": []}, "checkpoints must be a list of checkpoints")):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{words}"):
            sdi.group_scores(**{"store": store, "checkpoints": points, "groups": GROUPS, **changes})


@pytest.mark.slow
def test_the_command_ranks_groups_of_a_file(world: World) -> None:
    found, result = scored(world, loss=token_cross_entropy)
    files = [world.folder / "groups.json", world.folder / "groups.csv", world.folder / "bare.csv"]
    lines = [f"{i},{g}" for i, g in GROUPS.items()]
    for file, text in zip(files, [json.dumps(GROUPS), "\n".join(["id,group", *lines]), "\n".join(lines)], strict=True):
        file.write_text(text)
        (top,) = call_json("top", world.store, "--query", "q-1", "--by-group", file, "--by", "energy")
        assert all(row["stderr"] is None for row in top["rows"])
        assert [row["group"] for row in top["rows"]] == [row.train for row in found.top(query="q-1", by="energy")]
    assert "group" in call("top", world.store, "--query", "q-1", "--by-group", files[0]).stdout
    result.save(world.folder / "r.safetensors")
    said = call("top", world.folder / "r.safetensors", "--query", "q-1", "--by-group", files[0], code=2).stderr
    assert "SOURCE must be a config or a run's folder with --by-group" in said
    said = call("top", world.store, "--query", "q-1", "--by", "energy", code=2).stderr
    assert "by must be one of ('signed', 'absolute', 'late'), got 'energy'" in said


def test_a_file_of_groups_may_have_labels_as_numbers_leave_out_and_come_from_a_spreadsheet(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('{"a": 3, "b": null, "c": "x"}')
    assert read_groups(tmp_path / "g.json") == {"a": "3", "b": None, "c": "x"}
    (tmp_path / "g.csv").write_text("\ufeffid,group\na,x\n", encoding="utf-8")
    assert read_groups(tmp_path / "g.csv") == {"a": "x"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("g.json", '{"a": ["x"]}', "holds something else"),
        ("g.json", "[1]", "holds something else"),
        ("g.json", "{", "is not JSON"),
        ("g.csv", "a,b,c\n", "where entry 1 has 3 columns"),
        ("g.csv", "id,group\na,x\na,y\n", "where 'a' is in two groups, 'x' and 'y'"),
        ("g.txt", "a", "got .*g.txt$"),
    ],
)
def test_a_file_of_groups_that_is_none_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"^groups must be a .json file {{id: group}} or a .csv file.*{words}"):
        read_groups(tmp_path / name)
    with pytest.raises(ValueError, match="which does not exist"):
        read_groups(tmp_path / "none.json")
