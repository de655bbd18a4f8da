"""A Sudoku solver that shares nothing with the generator: exact cover, Knuth's algorithm X, in plain Python."""

from __future__ import annotations


def solutions(puzzle: list[int], height: int, width: int, most: int = 2) -> list[list[int]]:
    """Up to `most` solutions of a board, digits row by row, 0 a blank; boxes of height x width cells."""
    size = height * width
    choices = {}  # (cell, digit) -> the constraints that it meets
    for cell in range(size * size):
        r, c = cell // size, cell % size
        b = (r // height) * height + c // width
        for v in range(1, size + 1):
            choices[cell, v] = (("cell", cell), ("row", r, v), ("column", c, v), ("box", b, v))
    open_ = {}  # constraint -> the choices that would meet it
    for choice, met in choices.items():
        for constraint in met:
            open_.setdefault(constraint, set()).add(choice)

    def take(choice):
        gone = []
        for constraint in choices[choice]:
            for other in open_[constraint]:
                for also in choices[other]:
                    if also != constraint:
                        open_[also].discard(other)
            gone.append(open_.pop(constraint))
        return gone

    def give_back(choice, gone):
        for constraint in reversed(choices[choice]):
            open_[constraint] = gone.pop()
            for other in open_[constraint]:
                for also in choices[other]:
                    if also != constraint:
                        open_[also].add(other)

    chosen = []
    for cell, v in enumerate(puzzle):
        if v:
            if any(constraint not in open_ for constraint in choices[cell, v]):
                return []
            take((cell, v))
            chosen.append((cell, v))
    found = []

    def search():
        if not open_:
            found.append([v for _, v in sorted(chosen)])
            return
        constraint = min(open_, key=lambda k: len(open_[k]))
        for choice in sorted(open_[constraint]):
            gone = take(choice)
            chosen.append(choice)
            search()
            chosen.pop()
            give_back(choice, gone)
            if len(found) >= most:
                return

    search()
    return found
