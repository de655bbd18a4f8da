"""A code object as text, for fingerprints, and the names of globals or attributes that it loads."""

from __future__ import annotations

import dis
import inspect
from types import CodeType

GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
HAS_DOCSTRING: int = getattr(inspect, "CO_HAS_DOCSTRING", 0)  # from Python 3.13 on


def code_text(code: CodeType) -> str:
    """Bytecode, names and constants of a function, its inner functions included; no docstrings, no line numbers."""
    parts = [code.co_code.hex(), repr(code.co_names)]
    for k, c in enumerate(code.co_consts):
        if k == 0 and has_docstring(code):
            c = None
        # Sorted, since the order of a set of strings differs between processes.
        words = repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c)
        parts.append(code_text(c) if isinstance(c, CodeType) else words)
    return "|".join(parts)


def has_docstring(code: CodeType) -> bool:
    if HAS_DOCSTRING:
        return bool(code.co_flags & HAS_DOCSTRING)
    # Before Python 3.13, the first constant of a function is its docstring, or None.
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    return bool(function) and isinstance(code.co_consts[0], str)


def names_read(code: CodeType, how: tuple[str, ...]) -> list[str]:
    """The names loaded by instructions with these opnames, in the code and its inner functions, sorted."""
    found = {str(step.argval) for step in dis.get_instructions(code) if step.opname in how}
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return sorted(found.union(*(names_read(c, how) for c in inner)))
