"""Whoever is called in sync has everything that is committed; and in the end all replicas are in sync again.

Owns **incomplete-isr** and **isr-not-restored**. What is said of an ISR is what the metadata said when everything had
healed; the logs were read after that, and a replica that was in sync keeps what was committed then even if it is not in
sync any more. Where not all replicas were in sync again, whoever was asked may have told of an ISR that was no more, so
that a contradiction is undecided. Source: LeaderCandidateCompleteness of KIP-966's specification, seen from outside.
"""

from __future__ import annotations

from nemesis.checks.anomalies import Anomaly
from nemesis.checks.check import Coverage, Found, LogCheck
from nemesis.checks.losses import acknowledged
from nemesis.checks.partition import Operations, Partition
from nemesis.checks.replica_events import IsrClaim
from nemesis.checks.schemas import Severity


def check_incomplete_isr(partition: Partition) -> Found:
    """Members of the final ISR whose log, read whole, ends before what is committed; by replica id."""
    claim = partition.events.isr_claim
    if claim is None or not partition.logs:
        return Coverage()
    committed = known_committed_end(partition.operations, claim)
    whole = [log for log in partition.logs if log.replica_id in claim.isr and log.complete]
    for log in whole:
        if log.end_offset < committed:
            yield Anomaly(
                severity=Severity.VIOLATION if claim.restored else Severity.UNKNOWN,
                detail=f"replica {log.replica_id} is in the final ISR, but its log ends at offset {log.end_offset}, and"
                f" everything below offset {committed} was committed",
                offsets=(log.end_offset, committed),
                replicas=(log.replica_id,),
                evidence={"isr": list(claim.isr), "log_end_offset": log.end_offset, "committed_end_offset": committed},
            )
    missed = len(claim.isr) - len(whole)
    why = f"the logs of {missed} of {len(claim.isr)} members of the final ISR were not read to their end"
    return Coverage(looked=len(whole), missed=missed, why=why if missed else "")


def known_committed_end(operations: Operations, claim: IsrClaim) -> int:
    """How far the log was certainly committed when the ISR was looked at, exclusive: by its leader's own word then, by
    an acknowledgement, or by what a poll returned."""
    placed = operations.offset[acknowledged(operations)]
    ends = (placed.max(initial=-1) + 1, operations.record_offset.max(initial=-1) + 1, claim.committed_end_offset)
    return int(max(ends))


def check_isr_not_restored(partition: Partition) -> Found:
    """A log whose replicas were not all in sync again when the time was up.

    It is undecided: a machine that is too slow and a replica that is stuck for ever look alike from outside.
    """
    claim = partition.events.isr_claim
    if claim is None or claim.restored:
        return Coverage(looked=int(claim is not None))
    out = sorted(set(claim.replicas) - set(claim.isr))
    yield Anomaly(
        severity=Severity.UNKNOWN,
        detail=f"replicas {', '.join(map(str, out))} were not in the ISR {claim.after_s} s after all faults had healed",
        replicas=out,
        evidence={"isr": list(claim.isr), "replicas": list(claim.replicas), "after_s": claim.after_s},
    )
    return Coverage(looked=1)


INCOMPLETE_ISR = LogCheck(
    name="incomplete-isr",
    promise="Every replica in sync has everything that is committed.",
    needs="members of a final ISR whose logs were read",
    run=check_incomplete_isr,
)
ISR_NOT_RESTORED = LogCheck(
    name="isr-not-restored",
    promise="When all has healed, all replicas are in sync again.",
    needs="final ISRs",
    run=check_isr_not_restored,
)
