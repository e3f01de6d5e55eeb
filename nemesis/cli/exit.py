"""What the command's exit codes mean, and how every way to end becomes one of them.

Owns the codes. Jepsen's: a verdict is 0, 1 or 2, so that bad arguments, which click ends with 2, need another.

Whoever reads standard output or standard error may leave, as ``head`` does: what is told from then on goes nowhere, and
the command goes on to its verdict, to the files that it writes, and to its exit code. A full disk behind a redirection
is another matter: that stays an error.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

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


class Outlet:
    """A text stream that is like the one it is made of, but for a reader who leaves: that is no error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or drop it when nobody reads; the number of characters either way."""
        self._while_read(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush, or drop what was held back when nobody reads."""
        self._while_read(self._stream.flush)

    def _while_read(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            self._turn_away()

    def _turn_away(self) -> None:
        """Let the stream's file end in nothing, so that what its buffer still holds is no error at the exit either."""
        with suppress(OSError):  # a stream in memory has no file
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, self._stream.fileno())
            finally:
                os.close(nowhere)


@contextmanager
def heard_or_not() -> Iterator[None]:
    """Within, nobody who stops reading ends what is done here."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_outlet(stream) for stream in before)
    try:
        yield
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            # What cannot be written for another reason, Python says at its end.
            with suppress(OSError):
                stream.flush()
        sys.stdout, sys.stderr = before


def _outlet(stream: TextIO | None) -> TextIO:
    """The stream; None, which Python has where the process was started without it, stays that."""
    return cast("TextIO", None if stream is None else Outlet(stream))
