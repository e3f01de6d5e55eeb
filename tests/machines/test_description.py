"""What a log says of its machine: said once, held to from then on, and part of the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from replica.ids import Epoch, Offset, SnapshotId
from replica.machines import (
    AppliedLog,
    CorruptSnapshotError,
    DescribeMachine,
    Done,
    ForeignSnapshotError,
    MachineDescription,
    MachineMismatchError,
    PlainCommand,
    Refusal,
    Refused,
    SessionLimits,
    Snapshot,
    Trait,
    decode_entry,
    encode_entry,
)
from replica.machines.counter import Counter
from replica.machines.description import NAME_CHARACTERS_MAX, TRAITS_MAX, described
from replica.machines.registry import MACHINES, make_machine
from replica.machines.snapshots import sealed, unsealed
from tests.machines.folding import apply_one

LIMITS = SessionLimits(window=4)


class NextCounter(Counter):
    """The counter of another release."""

    def traits(self) -> Mapping[str, int]:
        """A later version."""
        return {**super().traits(), "version": 2}


def counter_log(counter: type[Counter] = Counter, *, name: str = "counter") -> AppliedLog:
    """A counter of which nothing has been applied."""
    return AppliedLog(counter(), name=name, limits=LIMITS)


def saying(log: AppliedLog) -> bytes:
    """The entry that describes the machine of ``log``."""
    return encode_entry(DescribeMachine(machine=log.description))


def test_a_description_names_all_that_decides_over_the_results() -> None:
    """The machine's own traits and the limits of the sessions, in the order of their names."""
    description = counter_log().description
    names = [trait.name for trait in description.traits]
    assert (description.name, names) == ("counter", sorted(names))
    assert {"digits_max", "version", "sessions.window", "sessions.kept_bytes_total_max"} < set(names)
    assert Trait(name="sessions.window", value=4) in description.traits
    assert str(described("lock", {"version": 3})) == "lock (version 3)"


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_of_the_package_has_a_version(name: str) -> None:
    """And nothing that cannot be written down."""
    machine = make_machine(name)
    assert machine.traits()["version"] >= 1
    entry = DescribeMachine(machine=described(name, machine.traits()))
    assert decode_entry(encode_entry(entry)) == entry


def test_the_first_description_counts_and_later_ones_change_nothing() -> None:
    """The same again is done, another one is refused; commands go on."""
    log = counter_log()
    assert (log.said, apply_one(log, saying(log)), log.said) == (None, Done(), log.description)
    assert apply_one(log, saying(log)) == Done()
    before = log.digest(), log.applied_offset
    outcome = apply_one(log, saying(counter_log(NextCounter)))
    assert isinstance(outcome, Refused)
    assert outcome.refusal is Refusal.INVALID_ENTRY
    assert (log.said, log.applied_offset) == (log.description, before[1] + 1)
    apply_one(log, encode_entry(PlainCommand(command=b"5")))
    assert log.digest() != before[0]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (counter_log(name="lock"), "it is of state machine lock, this replica was started with counter"),
        (counter_log(NextCounter), "it is of state machine counter with version 2, here it has version 1"),
        (
            AppliedLog(Counter(), name="counter", limits=SessionLimits()),
            "it is of state machine counter with sessions.window 8192, here it has sessions.window 4",
        ),
    ],
    ids=["name", "version", "limits"],
)
def test_the_log_of_another_machine_is_not_applied(other: AppliedLog, words: str) -> None:
    """Nothing of it, and nothing behind it: whoever asks is told why."""
    log = counter_log()
    with pytest.raises(MachineMismatchError) as raised:
        apply_one(log, saying(other))
    assert (str(raised.value), raised.value.said, raised.value.own) == (words, other.description, log.description)
    assert (log.applied_offset, log.said, log.failure) == (0, None, raised.value)
    with pytest.raises(MachineMismatchError):
        log.query(b"")


def test_a_snapshot_says_what_its_log_has_said() -> None:
    """Whoever begins with it knows it, and one with another machine refuses it."""
    log = counter_log()
    apply_one(log, saying(log))
    snapshot = log.snapshot()
    restored = counter_log()
    restored.restore(snapshot)
    assert (restored.said, restored.digest()) == (log.description, log.digest())
    for wrong, words in (
        (counter_log(NextCounter), "counter with version 1, here"),
        (counter_log(name="lock"), "lock"),
    ):
        with pytest.raises(ForeignSnapshotError, match=words):
            wrong.restore(snapshot)
        assert wrong.said is None


def test_a_snapshot_from_before_logs_said_it_is_taken() -> None:
    """It has the format that it always had, whatever is folded since; the log then says it later."""
    log = counter_log()
    apply_one(log, encode_entry(PlainCommand(command=b"5")))
    snapshot = log.snapshot()
    assert snapshot.data[:1] == b"\0"
    restored = counter_log()
    restored.restore(snapshot)
    assert (restored.said, apply_one(restored, saying(restored)), restored.said) == (None, Done(), log.description)
    assert restored.snapshot().data[:1] == b"\1"


def test_a_snapshot_whose_description_is_cut_is_refused() -> None:
    """As any other damage that a checksum does not show."""
    log = counter_log()
    apply_one(log, saying(log))
    data = unsealed(log.snapshot().data)
    with pytest.raises(CorruptSnapshotError, match="no snapshot"):
        counter_log().restore(Snapshot(id=SnapshotId(Offset(1), Epoch(0)), data=sealed(data[:-20])))


@pytest.mark.parametrize(
    "traits",
    [
        {"": 1},
        {"n" * (NAME_CHARACTERS_MAX + 1): 1},
        {"version": 1 << 63},
        {f"t{number}": number for number in range(TRAITS_MAX + 1)},
    ],
    ids=["nameless", "long", "large", "many"],
)
def test_traits_that_cannot_be_written_down_are_refused(traits: Mapping[str, int]) -> None:
    """When the machine is made, not when a leader describes it."""
    with pytest.raises(ValueError, match="trait"):
        described("counter", traits)


def test_a_trait_is_named_once() -> None:
    """Of two numbers under one name nobody could say which decides."""
    with pytest.raises(ValueError, match="the same name"):
        described("counter", {"version": 1}, {"version": 1})


def test_what_differs_is_told_both_ways() -> None:
    """A trait that only one of them has is told as well."""
    said = MachineDescription(name="m", traits=(Trait(name="a", value=1), Trait(name="same", value=0)))
    own = MachineDescription(name="m", traits=(Trait(name="b", value=2), Trait(name="same", value=0)))
    assert (
        str(MachineMismatchError(said=said, own=own))
        == "it is of state machine m with a 1, no b, here it has no a, b 2"
    )


@pytest.mark.parametrize(
    "traits",
    [{"factor": 0.5}, {"factor": 2.0}, {"\ud800": 1}, {b"version": 1}, {"": 1}],
    ids=["fraction", "whole-fraction", "surrogate", "bytes", "nothing"],
)
def test_what_cannot_be_written_down_is_refused_when_the_machine_is_made(traits: Mapping[Any, Any]) -> None:
    """Not when a leader describes it, which would end every leader in its turn."""
    with pytest.raises(ValueError, match="trait"):
        described("others", traits)
