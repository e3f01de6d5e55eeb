"""A random life of a cluster: whatever is asked in whatever order, the metadata stay sound.

The controller checks its invariants after every decision, and the bench that the log says the same as the image. Beside
them, what no single decision shows: which incarnations were ever granted a leader epoch.
"""

from __future__ import annotations

import dataclasses

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from replica.core import messages as m
from replica.core.metadata.snapshots import decode_image, encode_image
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, Epoch, PartitionEpoch, ReplicaId, SnapshotId
from tests.core.controller.bench import CONFIG, SESSION_MS, Bench

BROKERS = st.integers(1, 4)
ASSIGNMENT = ((1, 2, 3), (2, 3, 4), (4, 1, 2))
PARTITIONS = st.integers(0, len(ASSIGNMENT) - 1)


class ClusterLife(RuleBasedStateMachine):
    """Four brokers that come and go, three partitions, and leaders that propose what they please."""

    @initialize(elr=st.booleans(), unclean=st.booleans(), min_isr=st.integers(1, 3))
    def start(self, elr: bool, unclean: bool, min_isr: int) -> None:
        config = dataclasses.replace(
            CONFIG,
            elr_enable=elr,
            unclean_leader_election_enable=unclean,
            min_insync_replicas=min_isr,
            unclean_leader_election_interval_ms=4 * SESSION_MS,
        )
        self.bench = Bench(config)
        self.bench.start(1, 2, 3, 4)
        self.bench.create(*ASSIGNMENT)
        self.granted: dict[tuple[int, int], tuple[ReplicaId, BrokerEpoch]] = {}

    @rule(broker_id=BROKERS, clean=st.booleans(), offset=st.integers(-1, 1))
    def restarts(self, broker_id: int, clean: bool, offset: int) -> None:
        previous = self.bench.epoch_of(broker_id) if clean else None
        self.bench.register(broker_id, f"at-{self.bench.next_offset}", previous_broker_epoch=previous)
        self.bench.heartbeat(broker_id, metadata_offset=self.bench.epoch_of(broker_id) + offset)

    @rule(broker_id=BROKERS, want_shut_down=st.sampled_from((False, False, False, True)))
    def is_heard(self, broker_id: int, want_shut_down: bool) -> None:
        self.bench.heartbeat(broker_id, want_shut_down=want_shut_down)

    @rule(silent=st.sets(BROKERS, max_size=2))
    def time_passes(self, silent: set[int]) -> None:
        for broker_id in {1, 2, 3, 4} - silent:
            self.bench.heartbeat(broker_id)
        self.bench.pass_ms(SESSION_MS // 2)

    @precondition(lambda self: any(self.bench.partition(number).leader_id for number in range(3)))
    @rule(number=PARTITIONS, isr=st.sets(BROKERS), late=st.booleans())
    def proposes(self, number: int, isr: set[int], late: bool) -> None:
        registration = self.bench.partition(number)
        if registration.leader_id is not None:
            proposal = self.bench.proposal(*sorted({registration.leader_id, *isr}), number=number)
            late_by = int(late and registration.partition_epoch > 0)
            epoch = PartitionEpoch(proposal.partition_epoch - late_by)
            self.bench.propose(replace(proposal, partition_epoch=epoch))

    @rule(number=PARTITIONS, election_type=st.sampled_from(m.ElectionType))
    def is_elected(self, number: int, election_type: m.ElectionType) -> None:
        self.bench.elect(election_type, number)

    @rule(number=PARTITIONS, replicas=st.lists(BROKERS, min_size=1, max_size=4, unique=True))
    def is_reassigned(self, number: int, replicas: list[int]) -> None:
        assert self.bench.reassign(number, *replicas).error is ErrorCode.NONE

    @rule(number=PARTITIONS)
    def is_taken_back(self, number: int) -> None:
        self.bench.cancel(number)

    @rule(min_isr=st.sampled_from((None, "1", "2", "3", "9")))
    def minimum_changes(self, min_isr: str | None) -> None:
        self.bench.alter_topic("min.insync.replicas", min_isr)

    @rule(elr=st.booleans())
    def controller_changes(self, elr: bool) -> None:
        self.bench.restart(dataclasses.replace(self.bench.config, elr_enable=elr))

    @invariant()
    def an_epoch_belongs_to_one_incarnation(self) -> None:
        """No leader epoch is ever led by two brokers, or by two incarnations of one."""
        for number in range(len(ASSIGNMENT)):
            registration = self.bench.partition(number)
            if registration.leader_id is not None:
                led_by = (registration.leader_id, self.bench.epoch_of(registration.leader_id))
                assert self.granted.setdefault((number, registration.leader_epoch), led_by) == led_by

    @invariant()
    def nobody_is_forgotten(self) -> None:
        """There is always somebody to wait for: in sync, eligible, or who led last."""
        for number in range(len(ASSIGNMENT)):
            registration = self.bench.partition(number)
            assert registration.isr or registration.elr or registration.last_known_leader is not None, registration

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        """A partition that nobody leads has nobody that could lead it without a loss."""
        active = {broker.broker_id for broker in self.bench.committed.brokers.values() if broker.is_active}
        for number in range(len(ASSIGNMENT)):
            registration = self.bench.partition(number)
            if registration.leader_id is None:
                assert active.isdisjoint((*registration.isr, *registration.elr)), (registration, active)

    @invariant()
    def a_snapshot_is_the_whole_image(self) -> None:
        """The image that comes of a snapshot is the image, in the same order."""
        image = self.bench.committed
        restored = decode_image(encode_image(image, SnapshotId(self.bench.next_offset, Epoch(1))))
        assert restored == image
        assert repr(restored) == repr(image)  # Mappings are equal in any order.


ClusterLife.TestCase.settings = settings(stateful_step_count=40)
TestClusterLife = ClusterLife.TestCase
