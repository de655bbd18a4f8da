"""The property that refused each of the second sceptic's sketches, before and after the checks were mended."""

from __future__ import annotations

from sceptic_verdicts import Verdict

NEW_VERDICTS: dict[str, Verdict] = {}
