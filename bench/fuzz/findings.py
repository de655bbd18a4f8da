"""Findings: the outcomes of many models, counted: by class, by feature, and refusals by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .check import Checked, Outcome
from .description import Description

KINDS = ("right", "refused", "wrong", "raw")


@dataclass(frozen=True)
class Finding:
    """One model: its place in the sequence, what it was, and what became of it."""

    index: int
    one: Description
    checked: Checked

    @property
    def group(self) -> str:
        """ "sound"; "mixing"; or "unreached": sound, and refused as some parameter gets nothing from a first batch."""
        if not self.one.sound:
            return "mixing"
        refused = [outcome.words for outcome in self.checked.outcomes if outcome.kind == "refused"]
        excused = self.checked.unreached and refused and all(words.startswith("CoverageError") for words in refused)
        return "unreached" if excused else "sound"

    @property
    def kind(self) -> str:
        """The worst of its outcomes."""
        return max((outcome.kind for outcome in self.checked.outcomes), key=KINDS.index)

    @property
    def fault(self) -> Outcome | None:
        """The first that is wrong, or raw: whatever the model was, this must not be."""
        return next(iter(self.checked.faults), None)

    def to_dict(self) -> dict[str, Any]:
        return {"index": self.index, "one": self.one.to_json(), "checked": self.checked.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Finding:
        checked = dict(content["checked"])
        outcomes = tuple(Outcome(**outcome) for outcome in checked.pop("outcomes"))
        return cls(content["index"], Description.from_json(content["one"]), Checked(outcomes, **checked))


def by_group(findings: Sequence[Finding]) -> dict[str, Counter[str]]:
    """How many models of each group are right in both memory modes, refused in one of them, wrong, or raw."""
    found: dict[str, Counter[str]] = {"sound": Counter(), "unreached": Counter(), "mixing": Counter()}
    for finding in findings:
        found[finding.group][finding.kind] += 1
    return found


def by_feature(findings: Sequence[Finding]) -> dict[str, Counter[str]]:
    """For each feature, how many of the models that have it are right, refused, wrong, or raw."""
    found: dict[str, Counter[str]] = {}
    for finding in findings:
        for feature in finding.one.features:
            found.setdefault(feature, Counter())[finding.kind] += 1
    return dict(sorted(found.items()))


def refusals(findings: Sequence[Finding]) -> dict[tuple[str, str], Counter[str]]:
    """Runs refused, by group and reason, in each memory mode."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for finding in findings:
        for outcome in finding.checked.outcomes:
            if outcome.kind == "refused":
                found.setdefault((finding.group, outcome.words), Counter())[outcome.memory] += 1
    return dict(sorted(found.items(), key=lambda item: (item[0][0], -item[1].total())))
