"""find_loops: run a loss once and propose Loop objects: what is used more than once, in which order, how often.

A unit is a module with parameters that is called at least twice, and within no other such call; modules that are
distinct but have the very same parameters are one unit; a module that calls itself is none, but what it calls may be. A
step candidate is a unit; its calls cut the pass into steps. The body is made of the units that fit these steps: called
equally often in every one of them, or at most once in each. A parameter that distinct modules share, which have others
of their own, is a body, and each call of these modules a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from sdi.backends import room
from sdi.inputs.calls import Call, Calls
from sdi.loop import Loop
from sdi.run.found_loops import FoundLoop, FoundLoops, quoted
from sdi.run.picture import picture


def find_loops(model: Any, loss: Callable[[Any, Any], Any], batch: Any) -> FoundLoops:
    """Run the loss once, and propose what could be the loop of a model.

    model: an `nn.Module`, left as it came. loss: a function of model and batch that returns one value per example.
    batch: a batch as `loss` takes it, without ids.
    Returns `FoundLoops`, best first; none where no module is called twice.
    """
    return propose(room("fast").record_calls(model, loss, batch))


def propose(calls: Calls) -> FoundLoops:
    """The proposals for what was called."""
    rounds = [call for call in calls.root.walk() if call.name == ""]
    within = rounds[0] if len(rounds) > 1 else calls.root
    found = _loops(_Pass(calls, within), "restart" if len(rounds) > 1 else "one")
    notes = []
    if len(rounds) > 1:
        if found:
            words = f"the loss calls the model {len(rounds)} times: calls='restart' adds the rounds up step by step, "
            words += f"calls='continue' counts on, to {len(rounds) * found[0].tau} steps; with inner={found[0].tau} as "
            notes.append(f"{words}well, rounds have an axis of their own in result.nested()")
        else:
            found = _loops(_Pass(calls, calls.root), "continue")
            notes.append(f"the loop is held by the loss, which calls the model {len(rounds)} times")
    whole = _Pass(calls, calls.root)
    if len(rounds) < 2:
        found += _shared_parameters(calls, whole, {name for one in found for name in one.calls})
    held = {name for one in found for name in one.calls}
    notes += _used_by_name(calls, held)
    if not found:
        notes += _no_reuse(whole, by_name=bool(notes))
    return FoundLoops(tuple(found), picture(whole.shown), tuple(notes))


class _Unit(NamedTuple):
    name: str
    place: int  # in the order of all calls of the pass


class _Pass:
    """The calls of a pass: its units in order, and what a picture shows."""

    def __init__(self, calls: Calls, within: Call) -> None:
        self.calls, self.within = calls, within
        self.every = [call.name for call in within.walk()]
        self.counts = Counter(self.unit_of(name) for name in self.every if self.has_numbers(name))
        self.recursive = {self.unit_of(c.name) for c in within.walk() if any(i.name == c.name for i in c.walk())}
        self.units: list[_Unit] = []
        self.shown: list[str] = []
        self._walk(within, 0)
        self.times = Counter(unit.name for unit in self.units)

    def unit_of(self, name: str) -> str:
        """The first of the modules that have the same parameters as this one."""
        return self.calls.same.get(name, (name,))[0]

    def has_numbers(self, name: str) -> bool:
        return name != "" and self.calls.sizes.get(name, 0) > 0

    def _walk(self, call: Call, place: int) -> int:
        """Go through the calls within one; returns the place after them."""
        for inner in call.inner:
            unit = self.unit_of(inner.name)
            size = 1 + sum(1 for _ in inner.walk())
            if self.has_numbers(inner.name) and self.counts[unit] > 1 and unit not in self.recursive:
                self.units.append(_Unit(unit, place))
                self.shown.append(unit)
            elif any(self.counts[self.unit_of(c.name)] > 1 for c in inner.walk() if self.has_numbers(c.name)):
                self._walk(inner, place + 1)
            elif self.has_numbers(inner.name):
                self.shown.append(inner.name)
            elif inner.name == "":
                self._walk(inner, place + 1)
            place += size
        return place

    def inside(self) -> Iterator[tuple[str, _Pass]]:
        """Each unit, with the pass within its first call."""
        seen = set()
        for call in self.within.walk():
            name = self.unit_of(call.name)
            if name in self.times and name not in seen:
                seen.add(name)
                yield name, _Pass(self.calls, call)


def _loops(one: _Pass, calls: str) -> list[FoundLoop]:
    """Proposals for the units of a pass, best first; those within a call of a unit come after."""
    ranked = sorted((_candidate(one, step, calls) for step in one.times), key=lambda found: found[0])
    kept: list[FoundLoop] = []
    for _, found in ranked:
        if not any(other.tau == found.tau and {*found.calls} <= {*other.calls} for other in kept):
            kept.append(found)
    for outer, inner in one.inside():
        for found in _loops(inner, calls):
            times = one.times[outer]
            words = f"nested: {found.tau} steps within each of the {times} calls of {outer!r}"
            words += "; result.nested() has them as pairs"
            more = {name: count * times for name, count in found.calls.items()}
            loop = found.loop if found.loop.inner else replace(found.loop, cycle=outer, inner=found.tau)
            kept.append(FoundLoop(loop, found.tau * times, found.numbers, more, (words, *found.remarks)))
    return kept


def _candidate(one: _Pass, step: str, calls: str) -> tuple[Any, FoundLoop]:
    """The proposal with one unit as the step, and its rank: the lower, the better."""
    starts = [unit.place for unit in one.units if unit.name == step]
    spread = {name: _spread([u.place for u in one.units if u.name == name], starts) for name in one.times}
    kinds = {name: _kind(*of) for name, of in spread.items()}
    body = [name for name, kind in kinds.items() if kind]
    size = {name: one.calls.sizes[name] * (one.times[name] - 1) for name in body}
    even = sum(size[name] for name in body if kinds[name] != "some")
    remarks = []
    for name in body:
        if spread[name][0]:
            remarks.append(
                f"{spread[name][0]} of {one.times[name]} calls of {name!r} come before the first step: they are in "
                "no step, and counted in result.outside"
            )
        if kinds[name] == "some":
            steps = [t for t, times in enumerate(spread[name][1], 1) if times]
            words = f"{name!r} is called in {len(steps)} of {len(starts)} steps: {_some(steps)}"
            remarks.append(words + _cycles(name, *spread[name]))
    end, more = _end(one, starts, [name for name in body if kinds[name] == "coda"], spread, body)
    left = [name for name in one.times if name not in body]
    if left:
        words = ", ".join(f"{n!r} ({one.times[n]} calls)" for n in left)
        remarks.append(f"not in this body: {words}" + "".join(_cycles(n, *spread[n]) for n in left))
    twins = [name for name in one.calls.same.get(step, (step,)) if name in one.every]
    marks = twins if len(twins) > 1 else step
    if len(twins) > 1:
        remarks.append(f"{len(twins)} modules share the parameters of {step!r}; each call of one of them is a step")
    loop = Loop(body=body, step=marks, end=end, calls=calls)  # type: ignore[arg-type]
    numbers = sum(one.calls.sizes[name] for name in body)
    found = FoundLoop(loop, len(starts), numbers, {n: one.times[n] for n in body}, (*remarks, *more))
    return (-even, -sum(size.values()), starts[0]), found


def _spread(places: Sequence[int], starts: Sequence[int]) -> tuple[int, list[int]]:
    """Of a unit's calls, how many come before the first step, and how many lie in each."""
    before = sum(place < starts[0] for place in places)
    ends = [*starts[1:], float("inf")]
    return before, [sum(a <= p < b for p in places) for a, b in zip(starts, ends, strict=True)]


def _kind(before: int, by_step: Sequence[int]) -> str:
    """How a unit fits the steps: "even", "coda" (more often in the last), "some" (at most once in each), or not: ""."""
    if min(by_step) > 0 and len(set(by_step)) == 1:
        return "even"
    if len(by_step) > 1 and min(by_step) > 0 and len(set(by_step[:-1])) == 1 and by_step[-1] > by_step[0]:
        return "coda"
    return "some" if not before and max(by_step) <= 1 else ""


def _cycles(name: str, before: int, by_step: Sequence[int]) -> str:
    """That a unit's calls cut the steps into cycles, in words, if there are two or more, each of several steps."""
    calls = [t for t, times in enumerate([before, *by_step]) for _ in range(times)]
    cuts = [0, *calls, len(by_step)]
    lengths = [b - a for k, (a, b) in enumerate(pairwise(cuts)) if b > a or 0 < k < len(calls)]
    if len(lengths) < 2 or min(lengths) < 2:
        return ""
    return f"; with cycle={name!r}, inner={max(lengths)}, each call begins a cycle of an outer loop"


def _end(
    one: _Pass, starts: Sequence[int], late: Sequence[str], spread: dict[str, Any], body: Sequence[str]
) -> tuple[str | None, list[str]]:
    """The module whose call ends the last step, where body modules are called again after it; and remarks."""
    if not late:
        return None, []
    in_last = {n: [u.place for u in one.units if u.name == n and u.place >= starts[-1]] for n in body}
    usual = {name: spread[name][1][0] for name in body}
    done = max((places[usual[n] - 1] for n, places in in_last.items() if len(places) >= usual[n] > 0), default=0)
    extra = min(in_last[name][usual[name]] for name in late)
    count = Counter(one.every)
    own = {twin for name in body for twin in one.calls.same.get(name, (name,))}
    inside = tuple(f"{name}." for name in own)
    between = [n for n in one.every[done + 1 : extra] if count[n] == 1 and n not in own and not n.startswith(inside)]
    calls = ", ".join(f"{sum(spread[n][1]) - usual[n] * len(starts)} of {n!r}" for n in late)
    if between:
        return between[-1], [f"after the loop, which {between[-1]!r} closes, calls go to result.outside: {calls}"]
    return None, [
        f"the last step has more calls than the others ({calls}); if the loop is over by then, name a module whose "
        "call closes it as end=..."
    ]


def _shared_parameters(calls: Calls, one: _Pass, held: set[str]) -> list[FoundLoop]:
    """Proposals for parameters that distinct modules share without being alike, most numbers first."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for name, by_module in calls.uses.items():
        modules = tuple(n for n in dict.fromkeys(one.every) if n in by_module)
        apart = not any(a != b and (a == "" or b.startswith(a + ".")) for a in modules for b in modules)
        if len(modules) > 1 and set(modules) == {*by_module} and apart and not _covered(calls, name, held):
            shared.setdefault(modules, []).append(name)
    found = []
    for modules, names in shared.items():
        tau = sum(name in modules for name in one.every)
        words = f"{len(modules)} modules that are not alike share these parameters; each call of one of them is a step"
        numbers = sum(calls.own[name] for name in names)
        found.append(FoundLoop(Loop(body=names, step=modules), tau, numbers, dict.fromkeys(names, tau), (words,)))
    return sorted(found, key=lambda loop: -loop.numbers)


def _covered(calls: Calls, parameter: str, held: set[str]) -> bool:
    """Whether a parameter belongs to one of these modules, or to one with the same parameters, or is one of them."""
    names = {twin for one in held for twin in calls.same.get(one, (one,))}
    return any(parameter == name or parameter.startswith(name + ".") for name in names)


def _used_by_name(calls: Calls, held: set[str]) -> list[str]:
    """Parameters that were used at least twice and are in no proposal's body."""
    notes = []
    for name, by_module in calls.uses.items():
        owner, times = name.rpartition(".")[0], sum(by_module.values())
        called = any(call.name == owner for call in calls.root.walk())
        if _covered(calls, name, held) or times < 2 or (called and owner != "" and set(by_module) == {owner}):
            continue
        where = ", ".join("the model itself" if m == "" else repr(m) for m in by_module)
        reason = "" if called else f", without a call of {owner!r}: by name, or by .forward(...), which no hook sees"
        words = f"parameter {name!r} ({calls.own[name]:,} numbers) is used {times} times in {where}{reason}"
        notes.append(f"{words}; it may be named in body=")
    return notes


def _no_reuse(one: _Pass, by_name: bool) -> list[str]:
    """What to do without a loop of modules. by_name: whether parameters are used by name more than once."""
    first = next((name for name in one.shown), None)
    loop = "if the model loops over operations, let its state pass through an nn.Identity at the beginning of each "
    loop = f"{loop}step, and name that as step=" if by_name else "this model has no loop"
    notes = [f"no module with parameters is called more than once: {loop}"]
    if first is not None:
        names = list(dict.fromkeys(one.shown))
        notes.append(f"as a loop of one step: sdi.Loop(body={quoted(names)}, step={quoted(first)})")
        layers = _layers(one)
        if layers:
            notes.append(f"with its layers as steps: sdi.Loop(body={quoted(layers)}, step={quoted(layers)})")
    return notes


def _layers(one: _Pass) -> list[str]:
    """The longest run of numbered modules of one list that are called one after the other."""
    found: dict[str, list[str]] = {}
    for name in one.every:
        parent, _, last = name.rpartition(".")
        if last.isdecimal() and one.has_numbers(name):
            found.setdefault(parent, []).append(name)
    return max((names for names in found.values() if len(names) > 1), key=len, default=[])


def _some(steps: Sequence[int], most: int = 6) -> str:
    return ", ".join(map(str, steps[:most])) + (", ..." if len(steps) > most else "")
