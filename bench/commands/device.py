"""Device: whether an accelerator gives the CPU's numbers, what the host waits for, and what features cost there.

Checks first, by every way through the engine; then, on the work of `runtime`, each contender in turn, in seconds, and
the most memory that it held.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import torch

from sdi.backends import room

from ..harness.interleave import Progress, interleave
from ..harness.record import Record, Table
from ..work.cases import Case, gpt, sudoku
from ..work.contenders import SAYS, contender
from ..work.device_checks import ALLOWED, device_checks, moved

CONTENDERS = ("forward", "plain", "hooks", "recompute", "summed")
REMEDY = "run this where `python -c 'import torch; print(torch.accelerator.current_accelerator())'` names a device"


def find_device(name: str | None) -> torch.device:
    """The device of a name, or this machine's accelerator; ValueError where there is none, or it cannot add 1 and 1."""
    if name is None:
        found = room("fast.guard.random_and_autocast").accelerator_kind()
        if found is None:
            raise ValueError(
                f"there is no GPU here that PyTorch {torch.__version__} can use: nothing was tried; {REMEDY}"
            )
        name = found
    try:
        device = torch.device(name)
        (torch.ones(1, device=device) + 1).item()
    except Exception as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"--device {name} cannot be used here ({first}): nothing was tried; {REMEDY}") from None
    if device.type == "cpu":
        raise ValueError(f"--device must be another device than the CPU, with which it is compared, got {name!r}")
    return device


def measure_device(
    device: torch.device, rounds: int = 3, quick: bool = False, seed: int = 0, progress: Progress = lambda _: None
) -> Record:
    """Check a device against the CPU, then time the contenders on it."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    apart, failures = _check(device, progress)
    bound = ALLOWED[torch.float32]
    figures = {f"apart: {name}": [x] for name, x in apart.items()}
    wrong = {name: f"{x:.1e} apart, allowed {bound:.0e}" for name, x in apart.items() if not x <= bound} | failures
    rows = [[name, f"{apart[name]:.1e}" if name in apart else "-", wrong.get(name, "agrees")[:100]]
            for name in device_checks()]  # fmt: skip
    tables = [Table(f"{device}: largest difference from the CPU / largest number", ("check", "apart", "verdict"), rows)]
    cases = [sudoku(quick, seed)] if quick else [gpt(seed=seed), sudoku(seed=seed)]
    for case in [] if failures else cases:
        times, peaks, waits = _measure(case, device, rounds, progress)
        figures |= {f"{case.name} {name}, seconds": found for name, found in times.items()}
        figures |= {f"{case.name} {name}, peak bytes": [x] for name, x in peaks.items()}
        tables.append(_ratios(case, times, peaks, waits))
    verdict = f"{len(rows) - len(wrong)} of {len(rows)} checks agree with the CPU"
    settings = {"device": describe(device), "rounds": rounds, "seed": seed, "verdict": verdict}
    return Record("device", settings, figures, tables, failures=wrong)


def describe(device: torch.device) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return f"{device} {name}".strip()


def _check(device: torch.device, progress: Progress) -> tuple[dict[str, float], dict[str, str]]:
    """How far each check is apart, and the errors of those that ended with one."""
    apart, failures = {}, {}
    for name, check in device_checks().items():
        progress(f"check: {name}")
        try:
            apart[name] = check(device)
        except Exception as error:  # the others are still worth knowing
            failures[name] = f"{type(error).__name__}: {error}"
    return apart, failures


def _measure(
    case: Case, device: torch.device, rounds: int, progress: Progress
) -> tuple[dict[str, list[float]], dict[str, float], dict[str, int]]:
    """Of each contender: the seconds of every round, the most bytes beside the model, how often the host waited."""
    model, batch = case.model().to(device), moved(case.batch(), device)
    runs = {name: contender(name, model, case.config, case.sketch()) for name in CONTENDERS}
    turns = {name: partial(_seconds, run, model, batch, device) for name, run in runs.items()}
    times = interleave(turns, rounds, lambda text: progress(f"{case.name}: {text}"))
    peaks = {name: _peak(run, model, batch) for name, run in runs.items()} if device.type == "cuda" else {}
    waits = {name: _waits(run, batch) for name, run in runs.items()} if device.type == "cuda" else {}
    return times, peaks, waits


def _seconds(run: Callable[[Any], object], model: Any, batch: Any, device: torch.device) -> float:
    module = getattr(torch, device.type)
    model.zero_grad(set_to_none=True)
    module.synchronize()
    start = perf_counter()
    run(batch)
    module.synchronize()
    return perf_counter() - start


def _peak(run: Callable[[Any], object], model: Any, batch: Any) -> float:
    model.zero_grad(set_to_none=True)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run(batch)
    return float(torch.cuda.max_memory_allocated() - before)


def _waits(run: Callable[[Any], object], batch: Any) -> int:
    """How often the host waits for the device, as CUDA itself reports it."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            run(batch)
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return sum("synchronizing" in str(one.message) for one in seen)


def _ratios(case: Case, times: dict[str, list[float]], peaks: dict[str, float], waits: dict[str, int]) -> Table:
    plain, forward = min(times["plain"]), min(times["forward"])
    rows: list[Sequence[str]] = []
    for name in CONTENDERS:
        best = min(times[name])
        memory = f"{peaks[name] / 2**20:.0f}" if name in peaks else "-"
        waited = str(waits[name]) if name in waits else "-"
        rows.append([SAYS[name], f"{best / plain:.3f}", f"{best / forward:.3f}", f"{best:.4f}", memory, waited])
    columns = ("contender", "/ plain", "/ inference", "seconds, best", "peak beside the model, MiB", "waits")
    return Table(f"{case.name}: {case.says}", columns, rows)
