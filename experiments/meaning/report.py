"""The report of a meaning experiment, in Markdown, made of its summary alone."""

from __future__ import annotations

from typing import Any

from .sections import continued_section, horizons_section, removal_section
from .task_section import task_section

INTRODUCTION = """A score says of a training example and a loop step of a query: so much does training on the one lower
the loss of the other through this step. Retraining can refute it. Random groups of examples are left out of the last
updates of training (the window), the queries are run with the retrained weights in one loop step only, and the change
of the loss (the step-swap effect) is compared with the sum of the scores of what was left out. LDS is the rank
correlation over the groups, with a 95% bootstrap interval over seeds, groups and queries. QLD: how much more a query's
loss rises without its own top examples (1%) than without random ones, on the first seed. Cost: CPU seconds as a
multiple of training through the window, one adjoint for each query and step. All numbers are float64, one thread.
"""


def report(summary: dict[str, Any]) -> str:
    """README.md: what was done, what came out, whether the bar was met."""
    parts = [
        "# Does a step's number predict what retraining does to that step?\n",
        f"    {summary['command']}\n",
        INTRODUCTION,
        *(task_section(task) for task in summary["tasks"]),
    ]
    if len(summary["horizons"]) > 1:
        parts.append(horizons_section(summary["horizons"]))
    parts += [removal_section(removed) for removed in summary["removed"]]
    if summary["continued"]:
        parts.append(continued_section(summary["continued"], summary["study"]["continued"]))
    return "\n".join(parts)
