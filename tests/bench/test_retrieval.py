"""sdi-bench retrieval: features with a real run's spectrum, the scan and the index on them, and bars that can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdi.bench.commands.retrieval import POINT, QUICK, Found, _record, make_store, measure_retrieval, questions
from sdi.bench.harness.record import Record
from sdi.bench.work import real_features as real
from sdi.bench.work.real_features import Spectrum
from sdi.result.train_blocks import train_blocks

pytest.importorskip("faiss")


def spectrum(width: int = 16) -> Spectrum:
    rng = np.random.default_rng(0)
    falling = 2.0 ** -np.arange(40)
    return Spectrum.of("parity", rng.normal(size=(60, 40)) * falling, rng.normal(size=(2, 4, 40)) * falling, width)


def test_what_is_drawn_has_the_spectrum() -> None:
    made = spectrum()
    drawn = made.draw(5_000, 0, 1)
    found = np.sqrt(np.square(drawn).mean(axis=0)) / np.sqrt(np.square(made.lengths).mean())
    np.testing.assert_allclose(found, made.directions, rtol=0.1)
    spread = [np.log(x).std() for x in (np.linalg.norm(drawn, axis=1), made.lengths)]
    assert spread[0] > spread[1]
    assert made.energy[0] < made.energy[1] <= made.energy[-1] == pytest.approx(1)


def test_the_queries_keep_their_products_with_real_examples() -> None:
    rng = np.random.default_rng(1)
    g, phi = rng.normal(size=(9, 40)), rng.normal(size=(2, 3, 40))
    made = Spectrum.of("parity", g, phi, 16)
    kept = np.linalg.svd(g, full_matrices=False)[2].T
    np.testing.assert_allclose(np.linalg.norm(made.phi, axis=-1), np.linalg.norm(phi @ kept, axis=-1), rtol=1e-9)


@pytest.mark.slow
def test_a_small_measurement_is_whole_and_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    falling = 2.0 ** -np.arange(40)
    features = rng.normal(size=(60, 40)) * falling, rng.normal(size=(2, 4, 40)) * falling
    monkeypatch.setattr("sdi.bench.commands.retrieval.real_features", lambda *rest: features)
    work = QUICK._replace(numbers=16, sizes=(450, 500), widths=(32,), candidates=(400,), queries=1)
    record = measure_retrieval(work, tmp_path, lambda text: None)
    assert not record.bars
    record.save(tmp_path / "r.json")
    again = Record.load(tmp_path / "r.json")
    assert again.figures["recall parity n=500 width=32 candidates=400"][0] > 0.9
    assert [len(table.rows) for table in again.tables] == [2, 1, 2, 1]
    store = make_store(tmp_path / "retrieval-parity-500x16-0", spectrum(), 500, work, lambda text: pytest.fail(text), 0)
    assert sum(len(names) for names, _ in train_blocks(store, [POINT])) == 500


def test_the_bars_are_of_the_largest_size_and_the_worse_spectrum() -> None:
    def found(task: str, recall: float, ratio: float, n: int = 1_000_000, width: int = 32) -> Found:
        return Found(task, n, width, 400, recall, ratio, 1.0, 10.0, 5.0, 16, 32)

    work = QUICK._replace(sizes=(10_000, 1_000_000), tasks=("parity", "sudoku"))
    good = [found("parity", 0.99, 0.05), found("sudoku", 0.96, 0.09), found("parity", 0.1, 9.0, 10_000)]
    for more, met in (
        ([], [True, True]),
        ([found("sudoku", 0.2, 0.5, width=8)], [True, True]),  # what was tried beside
        ([found("sudoku", 0.94, 0.01)], [False, True]),
        ([found("parity", 1.0, 0.11)], [True, False]),
    ):
        record = _record(work, [*good, *more], [spectrum()], [], 0)
        assert [bar.met for bar in record.bars] == met


def test_questions_are_of_all_steps_the_later_half_and_one() -> None:
    assert [q["steps"] for q in questions(spectrum())] == [None, slice(3, 4), 2] * 2


@pytest.mark.slow
@pytest.mark.parametrize("task", real.TASKS)
def test_features_of_the_models_that_ship_are_made(task: str) -> None:
    g, phi = real.real_features(task, 3, 2, lambda text: None)
    assert (g.shape[0], phi.shape[0], phi.ndim) == (3, 2, 3)
    assert g.any(axis=1).all()
    assert phi.any(axis=(1, 2)).all()
