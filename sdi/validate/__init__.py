"""validate: is a sketch class linear, unbiased, within its claimed variance, conserving, equal on both backends?

One property per module; `sdi validate` shows them as a table, `sdi.testing` turns them into assertions.
"""

import importlib

from sdi.validate.evidence import PROPERTIES, Evidence, Property
from sdi.validate.sketch_under_test import Subject

RANDOMNESS = ("protocol", "repeatable", "layout", "seeded", "names", "order")
NUMBERS = ("linear", "nonfinite", "factored", "dtypes", "twin")
MOMENTS = ("listing", "scale", "unbiased", "variance")
for _name in (
    *RANDOMNESS,
    *NUMBERS,
    *MOMENTS,
    "conserving",
):  # registered as imported: the table's order
    importlib.import_module(f"sdi.validate.properties.{_name}")

from sdi.validate.report import Finding, Report, validate  # noqa: E402  (last: it runs them all)

__all__ = ["PROPERTIES", "Evidence", "Finding", "Property", "Report", "Subject", "validate"]
