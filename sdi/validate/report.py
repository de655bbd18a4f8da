"""validate: every property of a sketch class, one verdict each; and the report that holds them."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from sdi.sketch.load import load_sketch, sketch_text
from sdi.validate.compare_shipped import Standing, standing
from sdi.validate.enumeration import enumerations
from sdi.validate.evidence import PROPERTIES, UNDECIDED, Evidence, Property
from sdi.validate.other_sizes import other_sizes, sample
from sdi.validate.sketch_under_test import Subject
from sdi.validate.trial import trial

GOOD = ("holds", "does not apply")  # nothing speaks against the sketch, and what rests on it can be tested
WIDTH = 16  # m, unless the class refuses it
NOT_TESTED = (
    "other sizes than those named here, and pairs that the search did not find",
    "anything beyond mean and variance: tails, exponential bounds",
    "models other than three small looped transformers; `featurize` audits itself on yours",
    "speed at working sizes: see sdi-bench variants",
)


@dataclass(frozen=True)
class Finding:
    """A row of the table: the verdict on one property.

    >>> Finding("linear", "S is linear", "holds", "exact", 9, "", None, None, None, None, None, 0.1).verdict
    'holds'
    """

    property: str  # its name
    says: str  # the claim
    verdict: str  # "holds", "fails", "not decided", "not tested", "does not apply"
    how: str  # "exact", "statistical" or "both"
    cases: int  # how many were tried
    seen: str  # what was looked at
    wrong: str | None  # what failed
    case: str | None  # the smallest on which it did
    remedy: str | None  # what to do
    alpha: float | None  # of a statistical check: the probability of a false failure, at most
    power: str | None  # what it would have noticed
    seconds: float  # that it took


@dataclass(frozen=True)
class Report:
    """What `sdi validate` prints.

    >>> Report("tensor", (8, 6), 16, seed=0, draws=4000, findings=[], standing=[], not_tested=[]).passed
    True
    """

    sketch: str  # the class, as named
    shape: tuple[int, ...]  # of the parameter that it was tested on
    m: int  # numbers
    seed: int  # of the draws
    draws: int  # for every statistical verdict
    findings: list[Finding]  # one for each property
    standing: list[Standing]  # beside the shipped sketches, if that was asked for
    not_tested: list[str]  # in words

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the sketch."""
        return all(finding.verdict in GOOD for finding in self.findings)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the properties that fail."""
        return tuple(f.property for f in self.findings if f.verdict == "fails")

    @property
    def undecided(self) -> tuple[str, ...]:
        """The names of those that more draws would decide."""
        return tuple(f.property for f in self.findings if f.verdict == "not decided")

    @property
    def counts(self) -> tuple[int, int]:
        """How many properties hold, of those that apply."""
        verdicts = [f.verdict for f in self.findings if f.verdict != "does not apply"]
        return verdicts.count("holds"), len(verdicts)

    @property
    def alpha(self) -> float:
        """The probability, at most, that a good sketch fails any of the statistical properties."""
        return sum(f.alpha for f in self.findings if f.alpha is not None)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"passed": self.passed, "alpha": self.alpha, **asdict(self)}


def validate(
    sketch: str | type,
    *,
    shape: tuple[int, ...] = (8, 6),
    m: int | None = None,
    seed: int = 0,
    draws: int = 4000,
    compare: bool = True,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """Check every property of a sketch class.

    sketch: a class, or its name or path. shape, m: what it sketches, and to how many numbers; by default 16, or the
        next number that the class does not refuse with a ValueError.
    seed, draws: of the sketches that statistical properties are tested on.
    compare: also measure its error, bytes and time beside the shipped sketches.
    progress: called with a line of text before each property is checked.
    Returns a `Report`: a `Finding` for each property, and what was not tested.
    """
    subject = subject_of(sketch, shape, m, seed, draws)
    findings: list[Finding] = []
    for one in PROPERTIES:
        progress(f"checking: {one.says}")
        bad = {f.property for f in findings if f.verdict not in GOOD}
        findings.append(_find(one, subject, [name for name in one.needs if name in bad]))
    works = not any(f.verdict not in GOOD for f in findings if f.property in ("protocol", "linear", "factored"))
    progress("comparing with the shipped ones")
    rows = standing(subject) if compare and works else []
    return Report(
        subject.spec, subject.shape, subject.m, seed, draws, findings, rows, [rare_draws(draws), *not_tested()]
    )


def subject_of(sketch: str | type, shape: tuple[int, ...], m: int | None, seed: int, draws: int) -> Subject:
    """The class to test, as named; what is remembered of earlier ones is forgotten, since a class can be changed."""
    trial.cache_clear()
    enumerations.cache_clear()
    other_sizes.cache_clear()
    sample.cache_clear()
    spec = sketch if isinstance(sketch, str) else f"<{sketch_text(sketch)}>"
    cls = load_sketch(sketch)
    return Subject(cls, spec, shape, _first_width(cls, shape) if m is None else m, seed, draws)


def _first_width(sketch: Any, shape: tuple[int, ...]) -> int:
    """The first m from WIDTH on, below the number of entries, that a class does not refuse."""
    for m in range(WIDTH, prod(shape)):
        try:
            sketch.draw(shape, m, seed=0, name="core.weight")
        except ValueError:
            continue
        except Exception:
            break  # a fault, which `protocol` shows
        return m
    return WIDTH


def rare_draws(draws: int) -> str:
    """How likely it is that no draw of a verdict shows a fault of few draws. It assumes nothing of the sketch.

    >>> rare_draws(4000)[:101]
    'faults of rare draws, a heavy tail say: none of 4000 draws has one of 1 in 5000 with probability 0.45'
    """
    seen = ", ".join(f"1 in {one} with probability {(1 - 1 / one) ** draws:.2g}" for one in (5000, 1000, 200))
    return f"faults of rare draws, a heavy tail say: none of {draws} draws has one of {seen}"


def not_tested() -> list[str]:
    import torch

    none = [] if torch.cuda.is_available() else ["CUDA: there is no such device here"]
    return [*none, *NOT_TESTED]


def _find(one: Property, subject: Subject, missing: list[str]) -> Finding:
    began = time.perf_counter()
    if missing:
        why = f"rests on {' and '.join(missing)}"
        return Finding(one.name, one.says, "not tested", "", 0, why, None, None, None, None, None, 0.0)
    try:
        found = one.check(subject)
    except Exception as error:
        found = Evidence(0, "", f"it raised {type(error).__name__}: {error}", _place(error))
    return Finding(
        one.name,
        one.says,
        found.verdict,
        found.how,
        found.cases,
        found.seen,
        found.wrong,
        found.case,
        {"fails": one.remedy, "not decided": UNDECIDED}.get(found.verdict),
        found.alpha,
        found.power,
        time.perf_counter() - began,
    )


def _place(error: Exception) -> str:
    """The last line outside this package, which is most often the sketch's own."""
    ours = str(sys.modules["sdi.validate"].__path__[0])
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((f for f in reversed(frames) if not f.filename.startswith(ours)), frames[-1])
    return f"{frame.filename}, line {frame.lineno}: {frame.line}"
