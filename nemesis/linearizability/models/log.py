"""A log with offsets: ``append`` of a record at the end, ``fetch`` of (offset, limit) from the offset on.

An append takes a record, or a batch: a tuple of records that are put as one; so a record itself is no tuple. Its result
is the offset of the first, or (offset, record) as clients of Jepsen write it; nil if the offset is unknown. Of a
batch the record is the first one, or all of them; no log acknowledges another than was appended. A fetch
takes (offset, limit), the limit nil for as many as there are, and returns the tuple of records. A third element that is
true ("stale is allowed") says that it read what is committed, at a follower perhaps, and promised nothing about the end
of the log.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.forms import AppendForm, FetchForm, Form
from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value

NOWHERE = -1
"""The offset of what was acknowledged as another record than was appended: no log has it there."""


class Log(Model):
    """A log that begins at offset 0: the state is the tuple of its records."""

    name: ClassVar[str] = "log"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """Empty."""
        return ()

    def reads_only(self, operation: Operation) -> bool:
        return operation.f == "fetch"

    def form(self, operation: Operation) -> Form | None:
        """Every operation of a log is one of the log kernel."""
        match operation.f:
            case "append":
                return _append_form(operation)
            case "fetch":
                return _fetch_form(operation)
            case _:
                raise unknown_operation(self, operation)

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """In at the end; out from the offset on, up to the limit or the end."""
        assert isinstance(state, tuple), f"the state of a log is a tuple, not {state!r}"
        match self.form(operation):
            case AppendForm(records, base):
                return REFUSED if base is not None and base != len(state) else (*state, *records)
            case FetchForm(start, limit, records, stale):
                present = state[start : None if limit is None else start + limit]
                seen = present[: len(records)] if stale else present
                return state if operation.outcome is not Outcome.OK or records == seen else REFUSED
            case _:
                raise unknown_operation(self, operation)


def _append_form(operation: Operation) -> AppendForm:
    argument, base = operation.argument, operation.result if operation.outcome is Outcome.OK else None
    records = argument if isinstance(argument, tuple) else (argument,)
    if isinstance(base, tuple) and base:
        base, *told = base
        base = base if told == [argument] or tuple(told) == records[: len(told)] else NOWHERE
    if not records or not _are_records(records) or not (base is None or isinstance(base, int)):
        raise ModelError(f"line {operation.line}: append of {argument!r} returned {operation.result!r}")
    return AppendForm(records, base)


def _are_records(records: tuple[Value, ...]) -> bool:
    """Whether none is a tuple, which would be a batch where it is appended, and one record where it is read."""
    return not any(isinstance(record, tuple) for record in records)


def _fetch_form(operation: Operation) -> FetchForm:
    form = None
    match operation.argument, operation.result if operation.outcome is Outcome.OK else ():
        case (int(start), int() | None as limit), tuple(records) if _are_records(records):
            form = FetchForm(start, limit, records, False)
        case (int(start), int() | None as limit, bool(stale)), tuple(records) if _are_records(records):
            form = FetchForm(start, limit, records, stale)
    if form is None or form.start < 0 or (form.limit or 0) < 0:
        raise ModelError(
            f"line {operation.line}: fetch takes (offset, limit), neither of them negative, and returns a tuple of "
            f"records, not {operation.argument!r} and {operation.result!r}"
        )
    return form
