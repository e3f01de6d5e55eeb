"""What the command's exit codes mean, and how every way to end becomes one of them.

Owns the codes. Jepsen's: a verdict is 0, 1 or 2, so that bad arguments, which click ends with 2, need another.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemesis.cli.streams import heard_or_not

if TYPE_CHECKING:
    from nemesis.pipeline import EngineUnavailableError


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
    """What was asked for cannot be done on this machine; the message says why, or what to install."""


def refusal_of(error: EngineUnavailableError, *, kept: Path | None = None) -> click.ClickException:
    """How a command says that Spark cannot be had: a wrong ``--master`` is a bad argument, all else unsupported here.

    ``kept`` is the run that is on disk, and can be judged otherwise.
    """
    from nemesis.pipeline.session import MasterError

    instead = "judge in this process with --engine local" if kept is None else f"nemesis check {kept} --engine local"
    if isinstance(error, MasterError):
        return click.BadParameter(
            f"{error}; give a master that can be reached, or {instead}: what was recorded is kept",
            param_hint="--master",
        )
    return UnsupportedError(str(error))


def exit_code_of(command: Callable[[], object]) -> int:
    """Run a click command that is not in standalone mode; whatever happens, say it on stderr and return the code.

    That nobody reads what it says changes neither what it does nor the code.
    """
    with heard_or_not():
        return _told_code_of(command)


def _told_code_of(command: Callable[[], object]) -> int:
    try:
        result = _refusing(command)
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
    except (Exception, SystemExit):
        # click makes a SystemExit of any broken pipe. It is none of the output: another one, such as that to a JVM.
        traceback.print_exc()
        click.echo("nemesis: this is a fault of the harness, not a verdict on the log", err=True)
        return Exit.INTERNAL_ERROR
    return result if isinstance(result, int) else Exit.VALID


def _refusing(command: Callable[[], object]) -> object:
    """Run a command; an engine or a fault that cannot be had is a refusal, whichever command has asked for it."""
    try:
        return command()
    except Exception as error:
        from nemesis import errors
        from nemesis.pipeline.session import EngineUnavailableError

        if isinstance(error, EngineUnavailableError):
            raise refusal_of(error) from error
        if isinstance(error, errors.UnsupportedError):
            raise UnsupportedError(str(error)) from error
        raise
