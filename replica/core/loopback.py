"""What a replica asks of itself: a broker whose controller sits in the same process asks it without a network.

Owns the requests and answers that never leave. They are handed over between the parts within one step, in order; an
answer that waits for its records waits here as anywhere.
"""

from __future__ import annotations

from collections import deque

from replica.core.effects import Effect, Reply
from replica.core.messages import ControllerRequest, PeerResponse
from replica.ids import CallId, CorrelationId


class Loopback:
    """Requests to oneself, and their answers."""

    def __init__(self) -> None:
        self._requests: deque[tuple[CallId, ControllerRequest]] = deque()
        self._answers: deque[tuple[CorrelationId, PeerResponse]] = deque()

    def ask(self, correlation_id: CorrelationId, request: ControllerRequest) -> None:
        """Take a request; its call id is one that no driver gives away."""
        self._requests.append((CallId(-1 - correlation_id), request))

    def take_request(self) -> tuple[CallId, ControllerRequest] | None:
        """Hand over the oldest request; None if there is none."""
        return self._requests.popleft() if self._requests else None

    def catches(self, effect: Effect) -> bool:
        """Keep an answer to a request that came by here; tell whether it was one."""
        if not isinstance(effect, Reply) or effect.call_id >= 0:
            return False
        assert isinstance(effect.response, PeerResponse), effect.response
        self._answers.append((CorrelationId(-1 - effect.call_id), effect.response))
        return True

    def take_answer(self) -> tuple[CorrelationId, PeerResponse] | None:
        """Hand over the oldest answer; None if there is none."""
        return self._answers.popleft() if self._answers else None
