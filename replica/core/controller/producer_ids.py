"""Numbers for idempotent producers: each is given away once, and never again, whoever is the controller.

Source: KIP-98, Kafka ``ProducerIdControlManager``.
"""

from __future__ import annotations

from replica.core.controller.state import ControllerState
from replica.core.messages import InitProducerIdRequest, InitProducerIdResponse
from replica.core.metadata.records import ProducerIdsRecord
from replica.errors import ErrorCode

FIRST_PRODUCER_EPOCH = 0
"""A producer id that is new begins with this epoch; nobody asks for a further one without transactions."""


def on_init_producer_id(c: ControllerState, _request: InitProducerIdRequest, _now_ms: int) -> InitProducerIdResponse:
    """Give away the next producer id."""
    producer_id = c.image.next_producer_id
    c.append(ProducerIdsRecord(next_producer_id=producer_id + 1))
    return InitProducerIdResponse(error=ErrorCode.NONE, producer_id=producer_id, producer_epoch=FIRST_PRODUCER_EPOCH)
