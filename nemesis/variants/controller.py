"""Wrong rules about brokers: who may count as in sync, and what an unclean stop costs.

Owns nothing else. Source: KIP-841, KIP-903, KIP-966.
"""

# ruff: noqa: ARG002 - an override takes whatever the rule takes

from __future__ import annotations

from nemesis.variants.partitions_only import PartitionsOnly
from replica.core.metadata.image import BrokerRegistration
from replica.ids import BrokerEpoch


class IneligibleReplicaJoins(PartitionsOnly):
    """A fenced, stopping or former incarnation of a replica joins the ISR.

    The leader proposes nobody of whom it knows that, so that its check and the controller's go together.
    """

    def is_eligible_for_isr(
        self, *, is_active: bool, broker_epoch: BrokerEpoch | None, registered: BrokerEpoch | None
    ) -> bool:
        """Who fetches is alive."""
        return True

    def eligible_for_isr(self, *, registration: BrokerRegistration | None, broker_epoch: BrokerEpoch | None) -> bool:
        """The leader knows best."""
        return True


class UncleanRestartStaysInIsr(PartitionsOnly):
    """A replica that may have lost its unflushed tail stays in the ISR."""

    def stopped_cleanly(
        self, *, previous_broker_epoch: BrokerEpoch | None, registered_broker_epoch: BrokerEpoch
    ) -> bool:
        """Who comes back has everything."""
        return True
