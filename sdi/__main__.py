"""`python -m sdi` is the `sdi` command."""

from sdi.cli import app

app(prog_name="sdi")
