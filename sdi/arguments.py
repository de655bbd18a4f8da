"""Checks of arguments. Their errors all read alike: the argument's name, the rule, and the value that was given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import index
from typing import Any

LEAST_BUDGET = 1 << 20


def whole(name: str, value: Any) -> int:
    """Any integer (NumPy's, too) as a Python int; TypeError for anything else.

    >>> whole("m", "8")
    Traceback (most recent call last):
    TypeError: m must be an integer, got '8'
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return index(value)


def at_least_one(name: str, value: int) -> None:
    """Refuse an integer below 1.

    >>> at_least_one("repeats", 0)
    Traceback (most recent call last):
    ValueError: repeats must be at least 1, got 0
    """
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def not_negative(name: str, value: int) -> None:
    """Refuse a number below 0.

    >>> not_negative("seed", -1)
    Traceback (most recent call last):
    ValueError: seed must be at least 0, got -1
    """
    if value < 0:
        raise ValueError(f"{name} must be at least 0, got {value}")


def number(name: str, value: Any, rule: str, good: Callable[[float], bool]) -> float:
    """Any real number (NumPy's or a tensor's, too) as a Python float, if `good` holds for it; `rule` says so in words.

    >>> number("late", 2, "a number from 0 to 1", lambda x: 0 <= x <= 1)
    Traceback (most recent call last):
    ValueError: late must be a number from 0 to 1, got 2
    """
    if isinstance(value, bool) or not hasattr(value, "__float__") or len(getattr(value, "shape", ())):
        raise TypeError(f"{name} must be {rule}, got {value!r}")
    if not good(float(value)):
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return float(value)


def some_of(name: str, value: Any, what: str) -> None:
    """Refuse what is no list, an empty list, and a string, which would be iterated letter by letter.

    what: the word for its entries in the message.

    >>> some_of("queries", "q-1", "ids")
    Traceback (most recent call last):
    ValueError: queries must be a list of ids, got 'q-1'; write ['q-1']
    """
    rule = f"{name} must be a list of {what}, got {value!r}"
    if isinstance(value, str):
        raise ValueError(f"{rule}; write [{value!r}]")
    if not isinstance(value, Collection):
        raise ValueError(rule)
    if not len(value):
        raise ValueError(f"{rule}, which is empty")


def one_of(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Refuse a value that is none of the choices.

    >>> one_of("mode", "both", ("query", "train"))
    Traceback (most recent call last):
    ValueError: mode must be one of ('query', 'train'), got 'both'
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")


def check_budget(budget: int | None) -> None:
    """Refuse a memory budget below 1 MiB; None is no budget.

    >>> check_budget(1000)
    Traceback (most recent call last):
    ValueError: budget must be at least 1 MiB (1048576 bytes), got 1000
    """
    if budget is not None and budget < LEAST_BUDGET:
        raise ValueError(f"budget must be at least 1 MiB ({LEAST_BUDGET} bytes), got {budget}")
