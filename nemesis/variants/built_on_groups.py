"""The mutants that can be run on state machines: the published ones of leading, reading and writing down, and our own.

Owns the table; the wrong rules are in ``groups`` and ``snapshots``.
"""

from __future__ import annotations

from nemesis.variants import groups, snapshots
from nemesis.variants.mutant import Invariant, Need, Variant
from nemesis.variants.worlds import WorldKind
from replica.core.rules import Rules


def _variant(id: str, name: str, origin: str, breaks: Invariant, rules: type[Rules], *needs: Need) -> Variant:
    return Variant(id=id, name=name, origin=origin, breaks=breaks, rules=rules, world=WorldKind.GROUP, needs=needs)


BUILT_ON_GROUPS: tuple[Variant, ...] = (
    _variant(
        "R21",
        "leads-before-applying",
        "KAFKA-15345",
        Invariant.APPLIED_IS_COMMITTED,
        groups.LeadsBeforeApplying,
    ),
    _variant(
        "R22",
        "snapshot-one-off",
        "KAFKA-14618",
        Invariant.SNAPSHOT_AT_LOG_START,
        groups.SnapshotOneOff,
    ),
    _variant(
        "P10",
        "read-index-of-an-old-fetch",
        "classic",
        Invariant.LINEARIZABLE,
        groups.ReadIndexOfAnOldFetch,
        Need.OLD_FETCHES,
    ),
    _variant(
        "H8",
        "leads-after-resigning",
        "KAFKA-17333, the other half of R21",
        Invariant.APPLIED_IS_COMMITTED,
        groups.LeadsAfterResigning,
    ),
    _variant(
        "H9",
        "read-without-read-index",
        "Ongaro's thesis, section 6.4",
        Invariant.LINEARIZABLE,
        groups.ReadsWithoutAsking,
    ),
    _variant(
        "H10",
        "read-before-applying",
        "Ongaro's thesis, section 6.4",
        Invariant.LINEARIZABLE,
        groups.ReadsBeforeApplying,
    ),
    _variant(
        "H11",
        "sessions-not-in-snapshot",
        "Ongaro's thesis, section 6.3",
        Invariant.APPLIED_IS_COMMITTED,
        groups.SessionsNotInSnapshot,
    ),
    _variant(
        "H13",
        "lease-without-a-clock-bound",
        "classic; the other half of P10",
        Invariant.LINEARIZABLE,
        groups.LeaseByOneClock,
        Need.LEASES,
    ),
    _variant(
        "H23",
        "lease-read-under-a-paused-clock",
        "Ongaro's thesis, section 6.4.1; etcd, ReadOnlyLeaseBased",
        Invariant.LINEARIZABLE,
        groups.LeaseForEveryQuestion,
        Need.STANDING_CLOCKS,
    ),
    _variant(
        "H30",
        "lease-ended-by-a-refusal",
        "ours; Ongaro's thesis, section 6.4.1",
        Invariant.LINEARIZABLE,
        groups.LeaseEndedByARefusal,
        Need.LEASES,
        Need.FALSE_REFUSALS,
    ),
    _variant(
        "H12",
        "log-begins-after-its-snapshot",
        "classic",
        Invariant.SNAPSHOT_AT_LOG_START,
        snapshots.BeginsAfterItsSnapshot,
    ),
)
