"""Where things are in a checkout."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
ROOMS = ("reference", "fast", "proofs_checks", "bench", "experiments")  # beside sdi/; installed within it
