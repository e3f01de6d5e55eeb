"""What no log may do: a few operations, one after the other, on a log that nobody else touches meanwhile.

Owns one script for each kind of anomaly. Values and processes of a script are new, so that no session and no operation
of unknown outcome explains what it shows; ``implies`` names what else follows from it for whoever looks. An offset that
was promised and is not filled is a control record's, so that what follows it stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from benchmarks.synth.log_world import Call, LogWorld, Partition, Poll, Record, Script, Send
from benchmarks.synth.manifest import Planted
from benchmarks.synth.plan import Placing

VIOLATION, UNKNOWN, ALLOWED = "violation", "unknown", "allowed"
_GAP = ("poll-skip", "int-poll-skip")
"""What follows where something is said to stand at an offset at which readers find nothing."""


@dataclass(slots=True)
class Tape:
    """Records operations on one log, and which of them show the anomaly at which offsets."""

    world: LogWorld
    partition: int
    indexes: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    @property
    def log(self) -> Partition:
        """What truly stands there."""
        return self.world.logs[self.partition]

    def begin(self, *micro: Send | Poll, process: int | None = None) -> Call:
        """An operation begins."""
        call = Call(process=self.world.new_process() if process is None else process, micro=list(micro))
        self.indexes.append(self.world.recorder.invoke(call))
        return call

    def end(self, call: Call, type: str = "ok") -> None:
        """It ends."""
        self.world.recorder.complete(call, type)

    def did(self, *micro: Send | Poll, process: int | None = None, type: str = "ok") -> Call:
        """An operation from its beginning to its end."""
        call = self.begin(*micro, process=process)
        self.end(call, type)
        return call

    def send(self, value: int | None, offset: int | None, epoch: int | None = None) -> Send:
        """A send that is told this offset."""
        return Send(self.partition, value, offset, self.log.epoch if epoch is None else epoch)

    def poll(self, *records: Record, position: int | None = None, seek: bool = False, strict: bool = False) -> Poll:
        """A poll that returns these records, from the first of them on if not told otherwise."""
        start = position if position is not None else records[0][0]
        end = self.log.end
        return Poll(self.partition, start, list(records), high_watermark=end, seek=seek, strict=strict)

    def put(self, count: int = 1) -> list[Record]:
        """Values that are sent, acknowledged and kept."""
        found = []
        for _ in range(count):
            value = self.world.fresh()
            offset = self.log.put(value)
            call = Call(process=self.world.new_process(), micro=[self.send(value, offset)])
            self.world.recorder.invoke(call)
            self.end(call)
            found.append((offset, value))
        return found


def _lost_write(tape: Tape) -> None:
    offset = tape.log.put(None)
    tape.did(tape.send(tape.world.fresh(), offset))
    tape.put()
    tape.offsets = [offset]


def _duplicate(tape: Tape) -> None:
    [(first, value)] = tape.put()
    tape.put()
    tape.offsets = [first, tape.log.put(value)]


def _inconsistent_offsets(tape: Tape) -> None:
    other = tape.world.fresh()
    tape.begin(Send(tape.partition, other))
    [(offset, _)] = tape.put()
    tape.did(tape.poll((offset, other)))
    tape.offsets = [offset]


def _phantom_read(tape: Tape) -> None:
    tape.offsets = [tape.log.put(None)]
    behind = tape.put()
    tape.did(tape.poll((tape.offsets[0], tape.world.fresh()), *behind))


def _aborted_read(tape: Tape) -> None:
    value = tape.world.fresh()
    tape.did(Send(tape.partition, value), type="fail")
    tape.offsets = [tape.log.put(None)]
    # Behind it somebody else, so that it is below the end when it is read.
    behind = tape.put()
    tape.did(tape.poll((tape.offsets[0], value), *behind))


def _future_read(tape: Tape) -> None:
    [(offset, value)] = tape.put()
    later = tape.world.fresh()
    tape.offsets = [tape.log.put(later)]
    tape.did(tape.poll((offset, value), (tape.offsets[0], later)))
    tape.did(tape.send(later, tape.offsets[0]))


def _uncommitted_read(tape: Tape) -> None:
    records = tape.put(2)
    poll = tape.poll(*records)
    poll.high_watermark = records[1][0]
    tape.did(poll)
    tape.offsets = [records[1][0]]


def _nonmonotonic_poll(tape: Tape) -> None:
    one, two, three = tape.put(3)
    process = tape.did(tape.poll(one, two)).process
    tape.did(tape.poll(two, three, position=three[0]), process=process)
    tape.offsets = [two[0]]


def _poll_skip(tape: Tape) -> None:
    one, two, three = tape.put(3)
    process = tape.did(tape.poll(one)).process
    tape.did(tape.poll(three, position=two[0]), process=process)
    tape.offsets = [two[0]]


def _int_poll_skip(tape: Tape) -> None:
    one, two, three = tape.put(3)
    tape.did(tape.poll(one, three))
    tape.offsets = [two[0]]


def _int_nonmonotonic_poll(tape: Tape) -> None:
    one, two, three = tape.put(3)
    tape.did(tape.poll(one, three, two))
    tape.offsets = [three[0], two[0]]


def _nonmonotonic_send(tape: Tape, process: int | None = None) -> None:
    first, second = tape.world.fresh(), tape.world.fresh()
    offsets = [tape.log.put(second), tape.log.put(first)]
    call = tape.did(tape.send(first, offsets[1]))
    tape.did(tape.send(second, offsets[0]), process=call.process if process is None else process)
    tape.offsets = offsets


def _realtime_reorder(tape: Tape) -> None:
    _nonmonotonic_send(tape, tape.world.new_process())


def _hole(tape: Tape) -> None:
    """More control records than there are appends that may stand at one of their offsets for all that anybody knows."""
    tape.offsets = [tape.log.put(None) for _ in range(tape.log.never_written + 1)][-1:]
    tape.put()


def _stale_read(tape: Tape) -> None:
    [(offset, _)] = tape.put()
    tape.did(tape.poll(position=offset, strict=True))
    tape.offsets = [offset]


def _unseen(tape: Tape) -> None:
    """Everything before was read, and nobody will ever look behind it."""
    before = tape.log.records(0, tape.log.end)
    if before:
        tape.world.recorder.complete(_begun(tape, tape.poll(*before)), "ok")
    value = tape.world.fresh()
    tape.offsets = [tape.log.put(value)]
    tape.did(tape.send(value, tape.offsets[0]))
    tape.log.is_shown = False


def _begun(tape: Tape, poll: Poll) -> Call:
    call = Call(process=tape.world.new_process(), micro=[poll])
    tape.world.recorder.invoke(call)
    return call


def _fenced_acknowledgement(tape: Tape) -> None:
    tape.log.epoch += 1
    tape.put()
    value = tape.world.fresh()
    tape.offsets = [tape.log.put(value)]
    tape.did(tape.send(value, tape.offsets[0], tape.log.epoch - 1))


def _epoch_regression(tape: Tape) -> None:
    """Both begin before either is answered, so that no leader can be said to have been deposed."""
    tape.log.epoch += 1
    sends = []
    for epoch in (tape.log.epoch, tape.log.epoch - 1):
        value = tape.world.fresh()
        sends.append(tape.begin(tape.send(value, tape.log.put(value), epoch)))
    for call in sends:
        tape.end(call)
    tape.offsets = [tape.log.end - 2, tape.log.end - 1]


def _malformed_operation(tape: Tape) -> None:
    tape.did(tape.send(None, None))


# --- what only replicas show


def _sequence(*numbers: int) -> Callable[[Tape], None]:
    def script(tape: Tape) -> None:
        for (offset, _), number in zip(tape.put(len(numbers)), numbers, strict=True):
            tape.log.numbers[offset] = (7, 0, number)
            tape.offsets.append(offset)

    return script


def _diverged_log(tape: Tape) -> None:
    tape.offsets = [tape.put()[0][0]]
    tape.log.checksums[(2, tape.offsets[0])] = 1
    tape.put()


def _tell(tape: Tape, replica_id: int, event: str, **fields: object) -> None:
    """A replica tells this, after all that was told of its log before."""
    tape.log.events.append({"replica_id": replica_id, "event": event} | fields)


def _committed_truncated(tape: Tape) -> None:
    end = tape.put(2)[1][0] + 1
    _tell(tape, 2, "high-watermark", epoch=1, offset=end, detail="follower")
    _tell(tape, 2, "truncated", offset=end - 1)


def _high_watermark_regression(tape: Tape) -> None:
    end = tape.put(2)[1][0] + 1
    _tell(tape, 1, "high-watermark", epoch=1, offset=end, detail="leader")
    _tell(tape, 1, "high-watermark", epoch=1, offset=end - 1, detail="leader")


def _two_leaders(tape: Tape) -> None:
    for replica_id in (1, 2):
        _tell(tape, replica_id, "became-leader", epoch=9)


def _replica_stopped(tape: Tape) -> None:
    _tell(tape, 2, "halted", detail="a record would be lost")


def _incomplete_isr(tape: Tape) -> None:
    tape.offsets = [offset for offset, _ in tape.put(2)]
    tape.log.ends[3] = tape.offsets[0]


def _isr_not_restored(tape: Tape) -> None:
    tape.log.isr_restored = False


# --- what only transactions show


def _precommitted_read(tape: Tape) -> None:
    value = tape.world.fresh()
    offset = tape.log.put(value)
    tape.did(tape.send(value, offset), tape.poll((offset, value)))
    tape.offsets = [offset]


def _int_nonmonotonic_send(tape: Tape) -> None:
    one, two = tape.world.fresh(), tape.world.fresh()
    tape.offsets = [tape.log.put(two), tape.log.put(one)]
    tape.did(tape.send(one, tape.offsets[1]), tape.send(two, tape.offsets[0]))


def _int_send_skip(tape: Tape) -> None:
    values = [tape.world.fresh() for _ in range(3)]
    offsets = [tape.log.put(value) for value in values]
    first = tape.begin(tape.send(values[0], offsets[0]), tape.send(values[2], offsets[2]))
    second = tape.begin(tape.send(values[1], offsets[1]))
    tape.end(first)
    tape.end(second)
    tape.offsets = [offsets[1]]


def _in_two_logs(tape: Tape, other: Partition) -> tuple[list[int], list[int], list[int]]:
    """A value in each log of each of two transactions: the values, and their offsets in the first and second log."""
    values = [tape.world.fresh() for _ in range(4)]
    first = [tape.log.put(values[0]), tape.log.put(values[1])]
    second = [other.put(values[3]), other.put(values[2])]
    return values, first, second


def _write_cycle(tape: Tape, key: int) -> None:
    values, first, second = _in_two_logs(tape, tape.world.logs[key])
    one = tape.begin(tape.send(values[0], first[0]), Send(key, values[2], second[1], 1))
    two = tape.begin(tape.send(values[1], first[1]), Send(key, values[3], second[0], 1))
    tape.end(one)
    tape.end(two)


def _circular_information_flow(tape: Tape, key: int) -> None:
    one, two = tape.world.fresh(), tape.world.fresh()
    other = tape.world.logs[key]
    first, second = tape.log.put(one), other.put(two)
    reading = Poll(key, second, [(second, two)], high_watermark=other.end)
    begun = tape.begin(tape.send(one, first), reading)
    answering = tape.begin(Send(key, two, second, 1), tape.poll((first, one)))
    tape.end(begun)
    tape.end(answering)


def _around(tape: Tape, key: int, *, same_process: bool, reads: bool) -> None:
    """A transaction stands before one operation and behind another, which began when that one was over.

    It does so in two logs: by where its values stand, or by what is read; no two of the three stand in a circle.
    """
    other, process = tape.world.logs[key], tape.world.new_process()
    values = [tape.world.fresh() for _ in range(4)]
    second = process if same_process else tape.world.new_process()
    if reads:
        first, last = other.put(values[0]), tape.log.put(values[1])
        outer = tape.begin(Send(key, values[0], first, 1), tape.poll((last, values[1])))
        tape.did(Poll(key, first, [(first, values[0])], high_watermark=other.end), process=process)
        tape.did(tape.send(values[1], last), process=second)
    else:
        mine = [tape.log.put(values[0]), tape.log.put(values[1])]
        theirs = [other.put(values[2]), other.put(values[3])]
        outer = tape.begin(tape.send(values[0], mine[0]), Send(key, values[3], theirs[1], 1))
        tape.did(tape.send(values[1], mine[1]), process=process)
        tape.did(Send(key, values[2], theirs[0], 1), process=second)
    tape.end(outer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How one kind is planted, what a judge should say of it, and what else may follow."""

    script: Callable[[Tape], None] | None = None
    pair: Callable[[Tape, int], None] | None = None
    severity: str = VIOLATION
    implies: Sequence[str] = ()


SHARED: Mapping[str, Kind] = MappingProxyType(
    {
        "lost-write": Kind(script=_lost_write, implies=_GAP),
        "duplicate": Kind(script=_duplicate),
        "inconsistent-offsets": Kind(script=_inconsistent_offsets),
        "phantom-read": Kind(script=_phantom_read, implies=_GAP),
        "aborted-read": Kind(script=_aborted_read, implies=_GAP),
        "future-read": Kind(script=_future_read, implies=("realtime-reorder", "G1c-realtime")),
        "nonmonotonic-poll": Kind(script=_nonmonotonic_poll),
        "poll-skip": Kind(script=_poll_skip),
        "int-poll-skip": Kind(script=_int_poll_skip),
        "int-nonmonotonic-poll": Kind(script=_int_nonmonotonic_poll),
        "nonmonotonic-send": Kind(script=_nonmonotonic_send, implies=("realtime-reorder", "G0-process")),
        "realtime-reorder": Kind(script=_realtime_reorder, implies=("G0-realtime",)),
        "unseen": Kind(script=_unseen, severity=UNKNOWN, implies=("missing-evidence",)),
        "malformed-operation": Kind(script=_malformed_operation, severity=UNKNOWN),
    }
)
"""What any history of logs can show."""

RUN: Mapping[str, Kind] = MappingProxyType(
    {
        **SHARED,
        "uncommitted-read": Kind(script=_uncommitted_read),
        "stale-read": Kind(script=_stale_read),
        "hole": Kind(script=_hole),
        "fenced-acknowledgement": Kind(script=_fenced_acknowledgement, implies=("epoch-regression",)),
        "epoch-regression": Kind(script=_epoch_regression),
        "duplicate-sequence": Kind(script=_sequence(0, 0)),
        "out-of-order-sequence": Kind(script=_sequence(0, 2)),
        "diverged-log": Kind(script=_diverged_log),
        "committed-truncated": Kind(script=_committed_truncated),
        "high-watermark-regression": Kind(script=_high_watermark_regression),
        "incomplete-isr": Kind(script=_incomplete_isr, implies=("lost-write",)),
        "isr-not-restored": Kind(script=_isr_not_restored, severity=UNKNOWN),
        "two-leaders": Kind(script=_two_leaders),
        "replica-stopped": Kind(script=_replica_stopped),
    }
)
"""What a run shows: its clients' operations, its replicas' logs and what they told."""

TRANSACTIONS: Mapping[str, Kind] = MappingProxyType(
    {
        **SHARED,
        "precommitted-read": Kind(script=_precommitted_read),
        "int-nonmonotonic-send": Kind(script=_int_nonmonotonic_send),
        "int-send-skip": Kind(script=_int_send_skip, severity=ALLOWED, implies=("G0",)),
        "G0": Kind(pair=_write_cycle, severity=ALLOWED),
        "G0-process": Kind(pair=partial(_around, same_process=True, reads=False), severity=ALLOWED),
        "G0-realtime": Kind(pair=partial(_around, same_process=False, reads=False), severity=ALLOWED),
        "G1c": Kind(pair=_circular_information_flow),
        "G1c-process": Kind(pair=partial(_around, same_process=True, reads=True)),
        "G1c-realtime": Kind(pair=partial(_around, same_process=False, reads=True)),
    }
)
"""What a history of a Kafka workload shows, in which an operation may send and poll several times."""


def log_scripts(kinds: Mapping[str, Kind], planted: list[Planted], names: Callable[[int], str]) -> dict[str, Script]:
    """The script of each kind; what it has planted is added to ``planted``, its keys by their ``names``."""

    def scripted(world: LogWorld, placing: Placing) -> None:
        kind, tape = kinds[placing.name], Tape(world, placing.keys[0])
        if kind.pair is not None:
            kind.pair(tape, placing.keys[1])
        elif kind.script is not None:
            kind.script(tape)
        planted.append(
            Planted(
                anomaly=placing.name,
                keys=tuple(names(key) for key in placing.keys),
                op_indexes=tuple(tape.indexes),
                offsets=tuple(tape.offsets),
                severity=kind.severity,
                implies=tuple(kind.implies),
            )
        )

    return dict.fromkeys(kinds, scripted)
