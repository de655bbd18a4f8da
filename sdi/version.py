"""The version, written once: pyproject.toml reads it from here, and stores and results record it."""

__version__ = "0.1.0"
