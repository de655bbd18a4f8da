"""A result's arrays are xarray's own: cut and aligned by labels, tables for pandas; losses, scores relative to them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from result_cases import N, Q, T, make_result

import sdi
from sdi.result.as_xarray import as_xarray


@pytest.mark.slow
def test_slices_of_steps_are_by_label_with_both_ends() -> None:
    result = make_result()
    part = result.sdi.sel(step=slice(2, 3))
    assert part.step.values.tolist() == [2, 3]
    np.testing.assert_array_equal(part.values, result.sdi_values[..., 1:3])
    np.testing.assert_array_equal(result.sdi.sel(train="t-2", step=3).values, result.sdi_values[2, :, 2])


def test_arithmetic_aligns_by_id() -> None:
    result = make_result()
    other = result.only(["t-3", "t-1"])
    gone = result.sdi - other.sdi
    assert gone.train.values.tolist() == ["t-1", "t-3"]
    assert not gone.values.any()


def test_rows_are_grouped_by_a_coordinate() -> None:
    result = make_result()
    named = result.sdi.assign_coords(parity=("train", ["even", "odd", "even", "odd", "even"]))
    sums = named.groupby("parity").sum()
    np.testing.assert_allclose(sums.sel(parity="odd").values, result.sdi_values[1::2].sum(axis=0), rtol=1e-12)


def test_pandas_has_the_same_numbers_under_the_same_labels() -> None:
    result = make_result()
    table = result.sdi.sel(query="q-1").to_pandas()
    assert (table.shape, table.index.name, table.columns.name) == ((N, T), "train", "step")
    assert table.loc["t-4", 2] == result.sdi_values[4, 1, 1]
    column = result.sdi.to_dataframe()["sdi"]
    assert column.loc["t-4", "q-1", 2] == result.sdi_values[4, 1, 1]


def test_texts_keep_zero_characters_at_their_end() -> None:
    a = as_xarray(np.arange(2.0), ("train",), {"train": ("a", "a\0")})
    assert a.train.values.tolist() == ["a", "a\0"]


@pytest.mark.slow
def test_neither_the_library_nor_a_ranking_imports_xarray(tmp_path: Path) -> None:
    make_result().save(tmp_path / "r.safetensors")
    code = (
        "import sys, sdi; r = sdi.load(sys.argv[1]); r.top(2, query='q-1'); "
        "print('xarray' in sys.modules, type(r.sdi).__name__, 'xarray' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r.safetensors")], capture_output=True, text=True
    )
    assert found.stdout == "False DataArray True\n", found.stderr


def test_scores_are_shown_relative_to_the_querys_own_loss() -> None:
    result = make_result()
    loss = result.arrays["loss"]
    for point, row in ((None, 0), ("a", 0), ("b", 1)):
        share = result.relative(point)
        np.testing.assert_allclose(share.sdi_values, result.sdi_values / loss[row][:, None], rtol=1e-12)
        np.testing.assert_allclose(share.tracin_values, result.tracin_values / loss[row], rtol=1e-12)
        np.testing.assert_allclose(share.arrays["stderr"], result.arrays["stderr"] / loss[row][:, None], rtol=1e-12)
        assert f"scores are divided by the queries' losses at checkpoint {point or 'a'}" in share.notes
    assert result.relative("b").loss.identical(result.loss)
    assert (result.loss.dims, result.loss.shape) == (("checkpoint", "query"), (2, Q))
    with pytest.raises(ValueError, match=r"^no checkpoint 'c' among 2; there are only 'a', 'b'$"):
        result.relative("c")
    zero = make_result(loss=np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]))
    with pytest.raises(ValueError, match=r"^query 'q-1' has the loss 0 there; only a loss above 0 can be divided by$"):
        zero.relative()


def test_the_steps_of_a_loop_within_a_loop_are_pairs() -> None:
    result = make_result()
    pairs = result.nested(2)
    assert (pairs.dims, pairs.shape) == (("train", "query", "cycle", "step"), (N, Q, 2, 2))
    for t in range(T):
        part = pairs.sel(cycle=1 + t // 2, step=1 + t % 2)
        np.testing.assert_array_equal(part.values, result.sdi.sel(step=t + 1).values)
    np.testing.assert_allclose(pairs.sum(["cycle", "step"]).values, result.sdi.sum("step").values, rtol=1e-12)
    for bad in (3, 0, 5):
        with pytest.raises(ValueError, match=rf"^inner must divide the 4 steps into cycles of one length, got {bad}$"):
            result.nested(bad)
    with pytest.raises(ValueError, match=r"^nested needs one step axis"):
        make_result("tracin").nested(1)


def test_a_result_without_losses_is_saved_read_and_says_so(tmp_path: Path) -> None:
    result = make_result()
    result = replace(result, arrays={name: a for name, a in result.arrays.items() if name != "loss"})
    result.save(tmp_path / "r")
    back = sdi.load(tmp_path / "r")
    assert back.sdi.identical(result.sdi)
    with pytest.raises(
        ValueError, match=r"^the losses of the queries are not known: an older sdi stored their features"
    ):
        back.relative()
