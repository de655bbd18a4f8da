"""Stores, results and configs that version 0.1.0 wrote, before its modules were moved, open and score the same.

`tests/data/written_before` was written by commit d785097 with `sdi run NAME.toml`, Python 3.11: four runs that differ
in sketch, family, mode, dtype, repeats and spread.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import TESTS

import sdi
from sdi.inputs.config import read_config
from sdi.result.result import ARRAYS
from sdi.run.runs import Run, run, score

WRITTEN = TESTS / "data" / "written_before"
NAMES = ("plain", "half", "repeated", "own")
same_bytecode = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the loss's fingerprint reads bytecode, which differs between Pythons"
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return Path(shutil.copytree(WRITTEN, tmp_path / "written"))


def same_scores(found: Any, before: Any) -> None:
    """The same labels; scores up to the order in which this CPU adds, which is none on the machine they are from.

    `outside` may be TracIn without its steps, so it is off by what TracIn is off by.
    """
    assert found.labels == before.labels
    for name in ARRAYS:
        one, other = found.arrays[name], before.arrays[name]
        assert one.dtype == other.dtype
        scale = np.abs(before.tracin_values if name == "outside" else other).max(initial=0)
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * scale, err_msg=name)


@same_bytecode
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", ["{}.toml", "runs/{}/run.toml"])
def test_a_run_written_before_is_found_done_and_scores_the_same(written: Path, name: str, file: str) -> None:
    before = sdi.load(written / "runs" / name / "result.safetensors")
    the = Run.read(written / file.format(name))
    found = run(the)
    assert (the.made, the.reused > 0) == (0, True)
    same_scores(found, before)
    same_scores(score(Run.read(written / file.format(name))), before)


@pytest.mark.parametrize("name", NAMES)
def test_a_config_written_before_says_the_same_as_the_run_it_made(name: str) -> None:
    written, resolved = (read_config(WRITTEN / file) for file in (f"{name}.toml", f"runs/{name}/run.toml"))
    assert written.loop == resolved.loop
    assert (written.settings, written.store, written.result) == (resolved.settings, resolved.store, resolved.result)


def test_a_store_written_before_streams_the_result_that_was_written_with_it() -> None:
    store = sdi.Store(WRITTEN / "runs" / "plain")
    result = sdi.load(WRITTEN / "runs" / "plain" / "result.safetensors")
    (streamed,) = sdi.stream_top(store, read_config(WRITTEN / "plain.toml").points(), ["q-1"], 7)
    kept = result.top(7, query="q-1")
    assert [row.train for row in streamed] == [row.train for row in kept]
    np.testing.assert_allclose([r.score for r in streamed], [r.score for r in kept], rtol=1e-5)
    np.testing.assert_allclose([r.stderr for r in streamed], [r.stderr for r in kept], rtol=1e-5)
