"""How a command ends: 0 done, 1 a check failed, 2 bad input, 70 a defect of ours, 130 stopped by the user, 141 the
pipe was closed. One line on stderr says why; before that of a defect, where it came from.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from sdi.errors import AuditError
from sdi.inputs.script import where_in_script
from sdi.printable import printable, printable_lines

FAILED, BAD_INPUT, DEFECT, STOPPED, PIPE_CLOSED = 1, 2, 70, 130, 141


@contextmanager
def exit_codes(json: bool = False, script: Path | None = None, stopped: str = "") -> Iterator[None]:
    """Turn errors that a user can mend into one line on stderr and exit code 2; others pass on to `Commands`.

    With json, whatever a user's script prints goes to stderr: stdout is for the document alone.
    stopped: what to say after Ctrl-C: what was kept and what was lost.
    """
    try:
        with _all_to_stderr() if json else nullcontext():
            yield
    except AuditError as error:
        end(FAILED, f"audit failed: {error}")
    except KeyboardInterrupt:
        end(STOPPED, f"stopped; {stopped}" if stopped else "stopped")
    except (Exception, SystemExit) as error:
        place = where_in_script(error, script)
        if place is not None:
            end(BAD_INPUT, f"{place}: {type(error).__name__}: {error}")
        if isinstance(error, (ValueError, TypeError, OSError, ImportError)):
            end(BAD_INPUT, str(error))
        raise


def end(code: int, message: str, command: str = "sdi") -> NoReturn:
    print(f"{command}: {printable_lines(message)}", file=sys.stderr)
    raise typer.Exit(code) from None


def end_defect(error: BaseException, command: str = "sdi") -> NoReturn:
    """End after an unexpected error: print its traceback, exit with code 70."""
    for line in "".join(traceback.format_exception(error)).splitlines():
        print(printable(line), file=sys.stderr)
    end(DEFECT, f"a defect of {command}, please report it: {type(error).__name__}: {error}", command)


class Commands(TyperGroup):
    """Commands whose output may not arrive: a closed pipe ends them quietly, a full disk with a message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            out = super().invoke(ctx)
            sys.stdout.flush()
            return out
        except OSError as error:
            with suppress(OSError, ValueError, AttributeError):  # what is left unwritten is not tried again at the end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if error.errno == errno.EPIPE:
                raise typer.Exit(PIPE_CLOSED) from None
            end(BAD_INPUT, f"stdout cannot be written: {error}")
        except KeyboardInterrupt:
            end(STOPPED, "stopped")
        except (Exception, SystemExit) as error:
            if isinstance(error, typer.Abort) or hasattr(error, "exit_code"):  # Typer's own, which know how to end
                raise
            end_defect(error)


@contextmanager
def _all_to_stderr() -> Iterator[None]:
    """Redirect file descriptor 1 to stderr, so that child processes of the script do not write to stdout either."""
    with redirect_stdout(sys.stderr):
        try:
            kept = os.dup(1)
            os.dup2(2, 1)
        except OSError:  # closed: there is nothing to keep clean
            yield
            return
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
