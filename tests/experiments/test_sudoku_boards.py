"""Sudoku boards: exactly one solution each, by a solver of the tests' own; their statistics, splits and depths."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from sudoku_solver import solutions

from sdi.experiments.sudoku.boards import (
    Boards,
    blanked,
    generate,
    grid_of,
    hidden_singles,
    load_satnet,
    rounds,
    satnet,
)
from sdi.experiments.sudoku.settings import CONFIGS, configuration
from sdi.experiments.sudoku.split import bins, permuted_within, relabelled, split, stratified

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
SMOKE = CONFIGS["smoke"]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "count"), [(4, 300), (6, 150), (9, 60)])
def test_every_board_has_exactly_its_solution(size, count):
    boards = generate(count, size, seed=1)
    for puzzle, solution in zip(boards.puzzle.tolist(), boards.solution.tolist(), strict=True):
        assert solutions(puzzle, *BOXES[size]) == [solution]
    assert len({row.tobytes() for row in boards.puzzle}) == count
    assert len({row.tobytes() for row in boards.solution}) > count / (3 if size == 4 else 1.01)  # of 288 of 4x4


@pytest.mark.slow
def test_the_solver_of_the_tests_sees_boards_with_none_and_with_two_solutions():
    board = generate(1, 9, seed=2)
    puzzle = board.puzzle[0].tolist()
    fewer = [0 if k % 2 else v for k, v in enumerate(puzzle)]
    assert len(solutions(fewer, 3, 3)) == 2
    wrong = board.solution[0].tolist()
    wrong[0] = wrong[1]
    assert solutions(wrong, 3, 3) == []
    assert len(solutions([0] * 16, 2, 2, most=1000)) == 288  # all there are


@pytest.mark.slow
def test_a_pass_that_looks_at_fewer_cells_is_found_out():
    """The check above can fail: blanking a cell whatever the others are leaves boards with many solutions."""
    boards = generate(20, 6, seed=3)
    blind = np.where(np.random.default_rng(0).random(boards.puzzle.shape) < 0.3, 0, boards.puzzle)
    assert any(len(solutions(row, 2, 3)) > 1 for row in blind.tolist())


@pytest.mark.slow
def test_boards_have_the_blanks_of_satnets():
    missing = generate(1000, 9).missing
    assert abs(missing.mean() - 44.8) < 0.3  # measured: 44.7, with a standard error of 0.05
    assert missing.min() >= 36
    assert missing.max() <= 53
    with pytest.raises(ValueError, match=r"size must be one of \(4, 6, 9\), got 5"):
        generate(1, 5)
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        generate(0)


def test_boards_depend_on_the_seed_alone():
    a, b, c = generate(30, 4, seed=5), generate(60, 4, seed=5), generate(30, 4, seed=6)
    assert (a.puzzle == b.puzzle[:30]).all()
    assert (a.puzzle != c.puzzle).any()
    assert a.ids()[0] == "".join(map(str, a.puzzle[0])).replace("0", ".")


def slow_rounds(puzzle, solution, height, width):
    """Rounds of hidden singles, one cell at a time."""
    size = height * width
    now = list(puzzle)
    units = [[i for i in range(size * size) if i // size == k] for k in range(size)]
    units += [[i for i in range(size * size) if i % size == k] for k in range(size)]
    units += [
        [i for i in range(size * size) if (i // size // height, i % size // width) == (r, c)]
        for r in range(width)
        for c in range(height)
    ]
    for step in range(100):
        if 0 not in now:
            return step
        new = {}
        for unit in units:
            for v in range(1, size + 1):
                places = [
                    i
                    for i in unit
                    if now[i] == 0 and not any(i in other and v in [now[j] for j in other] for other in units)
                ]
                if len(places) == 1 and v not in [now[j] for j in unit]:
                    new[places[0]] = v
        if not new:
            return -1
        assert all(solution[i] == v for i, v in new.items())
        for i, v in new.items():
            now[i] = v
    raise AssertionError("no end")


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 6])
def test_rounds_are_those_of_a_slow_count(size):
    boards = generate(12, size, seed=4)
    slow = [
        slow_rounds(p, s, *BOXES[size]) for p, s in zip(boards.puzzle.tolist(), boards.solution.tolist(), strict=True)
    ]
    assert rounds(boards.puzzle, size).tolist() == slow


def test_rounds_of_boards_that_are_solved_already_or_never_are():
    solved = generate(1, 4).solution
    assert rounds(solved, 4).tolist() == [0]
    assert rounds(np.zeros_like(solved), 4).tolist() == [-1]
    after = hidden_singles.solved_after(generate(50, 6).puzzle, 6)
    assert (after >= 0).all()  # hidden singles of rows and columns alone suffice, by construction


@pytest.mark.slow
def test_the_test_boards_are_the_hardest_and_none_of_them_is_trained_on():
    train, test = split(SMOKE)
    assert len(train.puzzle) == 320
    assert len(test.puzzle) == 80
    assert train.missing.max() <= test.missing.min()
    assert not set(train.ids()) & set(test.ids())
    assert (np.diff(train.missing) < 0).any()  # shuffled


def test_permuted_labels_stay_within_their_difficulty_and_belong_to_others():
    boards = generate(400, 6)
    control = relabelled(replace(SMOKE, labels="permuted"), boards)
    assert (control.puzzle == boards.puzzle).all()
    place = {row.tobytes(): k for k, row in enumerate(boards.solution)}
    came = np.array([place[row.tobytes()] for row in control.solution])
    assert (boards.missing[came] == boards.missing).all()
    many = np.bincount(boards.missing)[boards.missing] > 1
    assert (came != np.arange(400))[many].all()
    assert sorted(permuted_within(np.array([1, 1, 2, 2, 2]), np.random.default_rng(0))) == [0, 1, 2, 3, 4]


def test_a_stratified_sample_is_as_even_as_the_strata_allow():
    missing = np.repeat([40, 41, 42, 43], [3, 100, 100, 5])
    rows = stratified(missing, 60, np.random.default_rng(0))
    assert len(set(rows.tolist())) == 60
    assert np.bincount(missing[rows])[40:].tolist() == [3, 26, 26, 5]
    with pytest.raises(ValueError, match="count must be from 1 to the number of boards, 208, got 209"):
        stratified(missing, 209, np.random.default_rng(0))
    assert bins(np.repeat([46, 47, 48, 49, 50], [137, 137, 137, 50, 51])) == [(46, 46), (47, 47), (48, 50)]
    assert bins([7] * 9) == [(7, 7)]


def test_moved_blanks_keep_the_solution():
    boards = generate(50, 6)
    again = Boards(blanked(grid_of(6), boards.solution, np.random.default_rng(9)), boards.solution)
    assert (again.puzzle != boards.puzzle).any(axis=1).all()
    assert ((again.puzzle == 0) | (again.puzzle == again.solution)).all()
    assert all(len(solutions(p, 2, 3)) == 1 for p in again.puzzle[:10].tolist())


@pytest.mark.slow
def test_satnets_files_are_verified_before_they_are_opened(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"without features.pt; SATNet's Sudoku data set is in two files"):
        load_satnet(tmp_path)
    boards = generate(30, 9)
    for name, digits in (("features.pt", boards.puzzle), ("labels.pt", boards.solution)):
        hot = torch.nn.functional.one_hot(torch.from_numpy(digits.astype(np.int64)), 10)[..., 1:]
        torch.save(hot.float().view(-1, 9, 9, 9), tmp_path / name)
    with pytest.raises(ValueError, match=r"features.pt is not SATNet's file: its sha256 is [0-9a-f]{64}, not 8349ff2a"):
        load_satnet(tmp_path)
    sums = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in satnet.CHECKSUMS}
    monkeypatch.setattr(satnet, "CHECKSUMS", sums)
    with pytest.raises(ValueError, match=r"must hold \(10000, 9, 9, 9\), got \(30, 9, 9, 9\)"):
        load_satnet(tmp_path)
    monkeypatch.setattr(satnet, "SHAPE", (30, 9, 9, 9))
    loaded = load_satnet(tmp_path)
    assert (loaded.puzzle == boards.puzzle).all()
    assert (loaded.solution == boards.solution).all()


def test_configurations_have_names():
    assert configuration("full").model_config().length == 81
    with pytest.raises(ValueError, match="did you mean 'smoke'"):
        configuration("smok")
