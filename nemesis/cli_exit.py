"""What the command's exit codes mean, and how every way to end becomes one of them.

Owns the codes. Jepsen's: a verdict is 0, 1 or 2, so that bad arguments, which click ends with 2, need another.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum

import click


class Exit(IntEnum):
    """How ``nemesis`` ends."""

    VALID = 0
    INVALID = 1
    UNKNOWN = 2
    UNSUPPORTED = 3
    BAD_ARGUMENTS = 254
    INTERNAL_ERROR = 255
    INTERRUPTED = 130


VERDICT_EXITS = {"valid": Exit.VALID, "invalid": Exit.INVALID, "unknown": Exit.UNKNOWN}


class UnsupportedError(click.ClickException):
    """What was asked for cannot be done on this machine; the message says what to install."""


def exit_code_of(command: Callable[[], object]) -> int:
    """Run a click command that is not in standalone mode; whatever happens, say it on stderr and return the code."""
    try:
        return _told_code_of(command)
    except (BrokenPipeError, SystemExit):
        # Whoever listened has left, as ``head`` does. click exits with 1 then, and here that would be a verdict.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return Exit.INTERNAL_ERROR


def _told_code_of(command: Callable[[], object]) -> int:
    try:
        result = command()
    except click.UsageError as error:
        error.show()
        return Exit.BAD_ARGUMENTS
    except UnsupportedError as error:
        error.show()
        return Exit.UNSUPPORTED
    except click.ClickException as error:
        error.show()
        return Exit.INTERNAL_ERROR
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception:
        traceback.print_exc()
        click.echo("nemesis: this is a fault of the harness, not a verdict on the log", err=True)
        return Exit.INTERNAL_ERROR
    return result if isinstance(result, int) else Exit.VALID
