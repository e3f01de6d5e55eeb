"""The mutants of voters that change, all our own, tried in worlds where voters come and go.

Owns the table; the wrong rules are in ``voters``.
"""

from __future__ import annotations

from nemesis.variants import voters
from nemesis.variants.mutant import Invariant, Need, Variant
from nemesis.variants.worlds import WorldKind
from replica.core.rules import Rules


def _variant(id: str, name: str, origin: str, breaks: Invariant, rules: type[Rules], *needs: Need) -> Variant:
    return Variant(
        id=id,
        name=name,
        origin=origin,
        breaks=breaks,
        rules=rules,
        world=WorldKind.GROUP,
        needs=(Need.CHANGING_VOTERS, *needs),
    )


BUILT_ON_VOTERS: tuple[Variant, ...] = (
    _variant(
        "H14",
        "voters-count-when-committed",
        "KIP-853; Ongaro's thesis, section 4.1",
        Invariant.MAJORITY_REACHED_HIGH_WATERMARK,
        voters.VotersCountWhenCommitted,
    ),
    _variant(
        "H15",
        "change-upon-change",
        "Ongaro's thesis, section 4.1",
        Invariant.LEADER_COMPLETENESS,
        voters.ChangesUponChanges,
        Need.CHANGES_CUT_OFF,
    ),
    _variant(
        "H16",
        "change-before-own-epoch",
        "Ongaro, bug in single-server membership changes, 2015",
        Invariant.LEADER_COMPLETENESS,
        voters.ChangesBeforeItsEpoch,
        Need.CHANGES_AT_ONCE,
    ),
    _variant(
        "H17",
        "any-disk-votes",
        "KIP-853, directory ids",
        Invariant.MAJORITY_REACHED_HIGH_WATERMARK,
        voters.AnyDiskVotes,
    ),
    _variant(
        "H18",
        "removed-leader-counts-itself",
        "Ongaro's thesis, section 4.2.2",
        Invariant.MAJORITY_REACHED_HIGH_WATERMARK,
        voters.RemovedLeaderCountsItself,
    ),
    _variant(
        "H19",
        "join-without-catching-up",
        "Ongaro's thesis, section 4.2.1",
        Invariant.PROGRESS,
        voters.JoinsWithoutCatchingUp,
    ),
    _variant(
        "H20",
        "voters-outlive-their-record",
        "KIP-853",
        Invariant.ELECTION_SAFETY,
        voters.VotersOutliveTheirRecord,
    ),
    _variant(
        "H21",
        "snapshot-without-voters",
        "KIP-853",
        Invariant.ELECTION_SAFETY,
        voters.SnapshotWithoutVoters,
    ),
    _variant(
        "H22",
        "only-voters-campaign",
        "Ongaro's thesis, section 4.2.2",
        Invariant.PROGRESS,
        voters.OnlyVotersCampaign,
        Need.CHANGES_AT_ONCE,
    ),
)
