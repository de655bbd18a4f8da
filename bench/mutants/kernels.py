"""Compiles the C kernels with a mutant in them, and runs the tests that call them."""

from __future__ import annotations

import hashlib
import subprocess
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from .fork import in_child, in_children
from .kernel_mutants import FILE, MUTANTS
from .mutant import Mutant
from .run import Collected, Job, Tell

CALLS = "fast/sketching/compiled.py", "_call"  # of NativeTensorSketch: what calls a kernel
COMPILE = ("gcc", "-O1", "-std=gnu11", "-fopenmp", "-Wno-psabi", "-fPIC", "-shared")


def kernel_mutants(top: Path) -> list[Mutant]:
    """The mutants of the kernels. ValueError if a text that is to be changed does not occur exactly once."""
    source = (top / FILE).read_text()
    found = []
    for old, new in MUTANTS:
        if source.count(old.rstrip(" ")) != 1:
            raise ValueError(f"{old!r} must occur once in {FILE}, got {source.count(old.rstrip(' '))} times")
        text = source.replace(old.rstrip(" "), new.rstrip(" "))
        line = source[: source.index(old.rstrip(" "))].count("\n") + 1
        found.append(Mutant(FILE, "kernel", line, " ".join(old.split()), " ".join(new.split()), text))
    return found


def run_kernels(
    collected: Collected, mutants: list[Mutant], budget: float, at_once: int, home: Path, tell: Tell
) -> None:
    """`tell` hears "killed" or "survived" of each."""

    names = collected.order(FILE, budget, [place for place in collected.living if place[:2] == CALLS])
    seconds = 2 + 4 * collected.time_of(names)

    def job(key: str, header: str) -> Job:
        library = build(collected.top, home, header)

        def work() -> bool:
            compiled = import_module("sdi.fast.sketching.compiled")
            compiled.find_spec = lambda name: SimpleNamespace(origin=str(library))  # type: ignore[attr-defined]
            for cache in collected.caches:
                cache.cache_clear()
            return collected.passes(names)

        return key, work, seconds

    if mutants:
        _, work, _ = job("", (collected.top / FILE).read_text())
        if in_child(work, seconds) != "passed":
            raise RuntimeError("the tests fail with kernels that were compiled here and not changed")
    for key, outcome, killer in in_children((job(one.key, one.source) for one in mutants), at_once):
        tell(key, "survived" if outcome == "passed" else "killed", killer)


def build(top: Path, home: Path, header: str) -> Path:
    """The library with this header, compiled."""
    folder = home / "kernels" / hashlib.sha256(header.encode()).hexdigest()[:16]
    library = folder / "kernels.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tensor_sketch.h").write_text(header)
        (folder / "tensor_sketch.c").write_text((top / FILE).with_suffix(".c").read_text())
        part = folder / "part.so"
        subprocess.run([*COMPILE, "-o", str(part), str(folder / "tensor_sketch.c"), "-lm"], check=True, cwd=folder)
        part.rename(library)
    return library
