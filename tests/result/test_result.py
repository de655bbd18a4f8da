"""Result: labelled, summarised, saved, loaded, converted and drawn; never with a number that is not one."""

from __future__ import annotations

import builtins
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from result_cases import TAU, N, Q, T, make_result
from safetensors.numpy import save_file

import sdi
from sdi import NonFiniteError


def test_sums_are_over_checkpoints_and_steps() -> None:
    result = make_result()
    np.testing.assert_array_equal(result.sdi.values, result.by_checkpoint.values.sum(axis=0))
    np.testing.assert_allclose(result.tracin.values, result.sdi.values.sum(axis=-1) + result.outside.values)
    assert (result.sdi.dims, result.tracin.dims) == (("train", "query", "step"), ("train", "query"))
    assert (result.sdi.shape, np.asarray(result.sdi).shape) == ((N, Q, T), (N, Q, T))
    assert type(result.sdi).__module__.startswith("xarray")


@pytest.mark.parametrize(
    ("mode", "sizes"),
    [
        ("query", "2 checkpoints x 5 train x 3 query x 4 steps"),
        ("matrix", "2 checkpoints x 5 train x 3 query x 4 train steps x 4 steps"),
        ("tracin", "2 checkpoints x 5 train x 3 query"),
    ],
)
def test_a_result_says_its_sizes_in_one_line(mode: str, sizes: str) -> None:
    result = make_result(mode)
    assert repr(result) == f"Result(mode={mode!r}, {sizes}, m=8)"
    assert repr(replace(result, info={})) == f"Result(mode={mode!r}, {sizes})"
    widths = {"core.weight": 8, "core.bias": 2}
    assert repr(replace(result, info={"settings": {"m": widths}})) == f"Result(mode={mode!r}, {sizes}, m by parameter)"


def test_a_label_that_is_not_there_is_refused_with_those_that_are_near() -> None:
    result = make_result()
    for wrong, words in (("q_1", "did you mean 'q-1'?"), ("nope", "there are only 'q-0', 'q-1', 'q-2'")):
        with pytest.raises(ValueError, match=rf"^no query {wrong!r} among 3; {re.escape(words)}$"):
            result.position("query", wrong)
    assert (result.position("query", "q-2"), result.position("step", "3")) == (2, 2)
    with pytest.raises(
        ValueError, match=r"^outside must have shape \(5, 3\) for axes \('train', 'query'\), got \(5, 2\)$"
    ):
        make_result(outside=np.ones((5, 2)))


@pytest.mark.parametrize("mode", ["query", "train", "matrix", "tracin"])
def test_what_was_saved_is_loaded_to_the_last_bit(tmp_path: Path, mode: str) -> None:
    result = make_result(mode)
    result.save(tmp_path / "r.safetensors")
    back = sdi.load(tmp_path / "r.safetensors")
    assert (back.mode, dict(back.info)) == (result.mode, dict(result.info))
    for name in ("by_checkpoint", "outside", "stderr", "tracin_stderr", "tau", "loss", "sdi", "tracin"):
        a, b = getattr(result, name), getattr(back, name)
        assert a.identical(b), name
        assert a.dtype == b.dtype
    assert [p.name for p in tmp_path.iterdir()] == ["r.safetensors"]
    assert back.notes == result.notes


def test_other_files_and_versions_are_not_results(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with pytest.raises(ValueError, match=r"^result .*/r does not exist$"):
        sdi.load(path)
    with pytest.raises(ValueError, match=r"is a folder; name the file in it, such as '.*/result.safetensors'$"):
        sdi.load(tmp_path)
    for content in (b"", b"text", b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^.*/r is not a result of sdi: "):
            sdi.load(path)
    save_file({"w": np.ones(3)}, path)
    for meta in ('{"version": 1}', '{"version": 1, "labels": {}, "mode": "query", "info": {}}', "[1]"):
        save_file({"x": np.ones(2)}, tmp_path / "half", metadata={"sdi": meta})
        with pytest.raises(ValueError, match=r"half is not a result of sdi: "):
            sdi.load(tmp_path / "half")
    with pytest.raises(ValueError, match=r"is not a result of sdi: it is a safetensors file of something else$"):
        sdi.load(path)
    save_file({"w": np.ones(3)}, path, metadata={"sdi": json.dumps({"version": 4})})
    with pytest.raises(ValueError, match=r"has version 4, this sdi reads versions 1 to 3 of a result$"):
        sdi.load(path)
    make_result().save(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="is not a result of sdi: "):
        sdi.load(path)


def test_matplotlib_is_named_if_it_is_not_installed(tmp_path: Path, monkeypatch: Any) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(f"no {name}")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=re.escape("plot needs matplotlib: pip install 'sdi-influence[plot]'")):
        make_result().plot(tmp_path / "p.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["query", "train"])
@pytest.mark.parametrize("name", ["p.png", "p.svg", "p"])
def test_a_plot_is_a_picture(tmp_path: Path, mode: str, name: str) -> None:
    make_result(mode).plot(tmp_path / name, query="q-1", k=2)
    start = b"<?xml" if name.endswith("svg") else b"\x89PNG"
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.slow
def test_a_plot_leaves_the_users_matplotlib_alone(tmp_path: Path) -> None:
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("svg")
    make_result().plot(tmp_path / "p.png")
    assert matplotlib.get_backend() == "svg"
    assert pyplot.get_fignums() == []


def test_a_plot_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    result = make_result()
    with pytest.raises(ValueError, match="no query 'q-9' among 3; did you mean"):
        result.plot(tmp_path / "p.png", query="q-9")
    with pytest.raises(ValueError, match="not supported"):
        result.plot(tmp_path / "p.docx")
    with pytest.raises(ValueError, match=r"^k must be at least 1, got 0$"):
        result.plot(tmp_path / "p.png", k=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["by_checkpoint", "outside", "stderr", "tracin_stderr"])
def test_scores_that_are_not_finite_are_an_error_that_says_where(name: str, bad: float) -> None:
    array = make_result().arrays[name]
    array[(1, 2, 1, 3) if name == "by_checkpoint" else (2, 1, 3)[: array.ndim]] = bad
    where = {
        "by_checkpoint": "checkpoint 'b', train 't-2', query 'q-1', step 4",
        "stderr": "train 't-2', query 'q-1', step 4",
    }
    place_words = where.get(name, "train 't-2', query 'q-1'")
    words = f"{name} at {place_words} is {bad}; check the model's weights and eta"
    with pytest.raises(NonFiniteError, match=re.escape(words)):
        make_result(**{name: array})


def by_hand(scores: np.ndarray, tau: np.ndarray) -> dict[str, np.ndarray]:
    """Summaries of trajectories (n, q, T) by loops."""
    n, q, steps = scores.shape
    energy = np.zeros((q, steps))
    late, centre, horizon, cancel = (np.zeros(q), np.zeros(q), np.zeros(q), np.zeros((n, q)))
    for j in range(q):
        for t in range(steps):
            energy[j, t] = sum(abs(scores[i, j, t]) for i in range(n))
        total = sum(energy[j])
        half = tau[j] // 2 + 1
        late[j] = sum(e for t, e in enumerate(energy[j], 1) if t >= half) / total
        centre[j] = sum(t * e for t, e in enumerate(energy[j], 1)) / total
        horizon[j] = next(t for t in range(1, steps + 1) if sum(energy[j][:t]) >= 0.9 * total)
        for i in range(n):
            cancel[i, j] = 1 - abs(sum(scores[i, j])) / sum(abs(scores[i, j]))
    return {"energy": energy, "late_mass": late, "centre_of_mass": centre, "horizon": horizon, "cancellation": cancel}


def test_summaries_are_what_loops_say_with_each_querys_own_tau() -> None:
    result = make_result()
    wanted = by_hand(result.sdi.values, TAU)
    summary = result.summary()
    assert summary.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(summary[name].values, value, rtol=1e-12, err_msg=name)
    common = by_hand(result.sdi.values, np.full(Q, T))["late_mass"]
    assert not np.allclose(common, wanted["late_mass"])  # the later half of the longest loop is another thing
    assert summary["late_mass"].sel(query="q-1").shape == ()


def test_summaries_by_group_take_only_the_group() -> None:
    result = make_result()
    groups = {f"t-{k}": "even" if k % 2 == 0 else "odd" for k in range(N)}
    summary = result.summary_by_group(groups)
    assert list(summary) == ["even", "odd"]
    for name, rows in (("even", [0, 2, 4]), ("odd", [1, 3])):
        for key, value in by_hand(result.sdi.values[rows], TAU).items():
            np.testing.assert_allclose(summary[name][key].values, value, rtol=1e-12)
    with pytest.raises(ValueError, match=r"^groups must name every training example; 't-3' has none \(1 do not\)$"):
        result.summary_by_group({i: g for i, g in groups.items() if i != "t-3"})


def test_in_mode_train_each_training_examples_own_tau_counts() -> None:
    result = make_result("train")
    scores, tau = result.sdi.values, result.tau.values
    late = np.arange(1, T + 1) >= (tau // 2 + 1)[:, None]  # (n, T)
    wanted = (np.abs(scores) * late[:, None]).sum(axis=(0, 2)) / np.abs(scores).sum(axis=(0, 2))
    np.testing.assert_allclose(result.summary()["late_mass"].values, wanted, rtol=1e-12)


@pytest.mark.parametrize("mode", ["matrix", "tracin"])
def test_summaries_and_plots_need_one_step_axis(tmp_path: Path, mode: str) -> None:
    result = make_result(mode)
    for verb, use in (
        ("summary", result.summary),
        ("plot", lambda: result.plot(tmp_path / "p.png")),
        ("summary_by_group", lambda: result.summary_by_group({})),
    ):
        with pytest.raises(
            ValueError, match=f"^{verb} needs one step axis; this result has mode='{mode}', use 'query'"
        ):
            use()


def test_a_query_that_nothing_acts_on_has_no_timing() -> None:
    result = make_result()
    result.by_checkpoint.values[:, :, 1] = 0
    summary = result.summary()
    assert np.isnan(summary["late_mass"].sel(query="q-1").values)
    assert np.isfinite(summary["late_mass"].sel(query="q-0").values)
