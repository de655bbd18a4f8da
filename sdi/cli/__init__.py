"""The `sdi` command; `python -m sdi` is the same."""

from sdi.cli.commands import app

__all__ = ["app"]
