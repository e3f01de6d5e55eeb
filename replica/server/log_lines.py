"""How log lines look: one JSON object per line, or coloured text on a terminal, always on standard error.

Owns the configuration of structlog, and of the standard library's logging that gRPC writes to. Every line carries
``replica_id``, ``time_ns`` (wall clock, nanoseconds since 1970), so that lines of several machines can be merged, and
``monotonic_ns`` (the machine's clock that nobody sets, nanoseconds since some time), by which what the processes of one
machine have done stands in order, whatever becomes of wall clocks.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from replica.ids import ReplicaId

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_threshold = {"level": logging.INFO}
"""Below what nothing is written: of the whole process, as its output is."""


def configure_logging(*, level: str, json: bool | None = None) -> None:
    """Set up logging for the process; ``level`` is a key of LEVELS, ``json`` absent = unless on a terminal."""
    set_level(level)
    as_json = not sys.stderr.isatty() if json is None else json
    renderer: Processor = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _above_level,
        _add_times,
    ]
    if as_json:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, renderer],
        # Loggers are kept as they were made first, so that it is not they who know the level.
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        # Line and line end in one write, so that a kill or another thread cannot come between them.
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _StandardError())),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(_is_not_a_callers_leaving)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def set_level(level: str) -> None:
    """Write no lines below a level from now on, a key of LEVELS; those of libraries never below info."""
    _threshold["level"] = LEVELS[level]


def _above_level(logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
    del logger, method
    if LEVELS.get(line["level"], logging.CRITICAL) < _threshold["level"]:
        raise structlog.DropEvent
    return line


def _is_not_a_callers_leaving(record: logging.LogRecord) -> bool:
    """Tell whether a line of a library is worth an operator's eye.

    gRPC reports a caller that hung up just before its reply as an error with a traceback. Callers may do that.
    """
    return "ExecuteBatchError" not in str(record.msg)


class _StandardError:
    """Standard error, whose failures are not ours: who cannot be heard must still serve.

    1. The lines go to a file on a full disk, or to a pipe whose reader is gone. 2. A line of a step cannot be written.
    3. Raised there, the error would reach whoever made the step: a call, a timer or a flush would be left half done.
    """

    def write(self, text: str) -> int:
        try:
            return sys.stderr.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            sys.stderr.flush()
        except OSError:
            return


def logger_of(replica_id: ReplicaId | None) -> FilteringBoundLogger:
    """Return the logger whose lines carry ``replica_id`` (null while it is not known yet)."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger.bind(replica_id=replica_id)


def _add_times(logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
    del logger, method
    # The machine's own, also where the clocks that the replica goes by are others.
    line["time_ns"] = time.time_ns()
    line["monotonic_ns"] = time.monotonic_ns()
    return line
