"""What is asked of a replica and how long its answers take, by API: counted in plain numbers on a request's way.

Owns these counts and the metrics that are made of them when somebody asks for the page. A request costs an increment
and an addition; what went wrong, an increment more.

Source: Kafka's ``RequestMetrics`` (``TotalTimeMs``, ``ErrorsPerSec``), where followers' fetches are told apart too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from replica.errors import ErrorCode
from replica.rpc.codec import METHODS
from replica.server.histogram import Histogram

REQUEST_BUCKETS_SECONDS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

FENCING = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.STALE_BROKER_EPOCH,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
"""What is answered to who acts on what is over, or has not come yet."""


class RequestCounts:
    """The requests of one replica by API, those of clients and those of other replicas apart.

    ``seconds`` is a clock that never goes back.
    """

    def __init__(self, seconds: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = seconds
        self.of_clients = _histograms()
        """How long each took, from the decoded request to its encoded answer."""
        self.of_replicas = _histograms()
        self.over_budget: Counter[str] = Counter()
        """Requests refused because there is no room for them or for their answers, by the budget."""
        self._errors: Counter[tuple[str, str]] = Counter()
        self._throttled: Counter[tuple[str, str]] = Counter()
        self._throttle_ms: Counter[str] = Counter()

    def on_errors(self, api: str, errors: Iterable[str]) -> None:
        """Count what an answer complains of, or the status with which a call ends instead."""
        for error in errors:
            self._errors[api, error] += 1

    def on_throttled(self, quota: str, outcome: str, delay_ms: int) -> None:
        """Count that a quota has delayed an answer, be it of a call that was ``refused`` or only ``delayed``."""
        self._throttled[quota, outcome] += 1
        self._throttle_ms[quota] += delay_ms

    def collect(self) -> Iterator[Metric]:
        """Make metrics of the counts. For any thread."""
        yield self._times()
        yield from self._failures()
        yield from self._throttling()
        over = CounterMetricFamily(
            "replica_requests_over_budget", "Requests refused, by the budget.", labels=["budget"]
        )
        for budget, count in tuple(self.over_budget.items()):
            over.add_metric([budget], count)
        yield over

    def _throttling(self) -> Iterator[Metric]:
        calls = CounterMetricFamily(
            "replica_throttled_requests",
            "Requests that a quota has `delayed`, or has `refused` because delays did not help.",
            labels=["quota", "outcome"],
        )
        for labels, count in tuple(self._throttled.items()):
            calls.add_metric(labels, count)
        seconds = CounterMetricFamily(
            "replica_throttle_seconds", "How long answers were delayed by a quota, together.", labels=["quota"]
        )
        for quota, delay_ms in tuple(self._throttle_ms.items()):
            seconds.add_metric([quota], delay_ms / 1000)
        yield from (calls, seconds)

    def _times(self) -> Metric:
        took = HistogramMetricFamily(
            "replica_request_seconds",
            "How long answers took, from the decoded request on; a Fetch may wait for records. By client or replica.",
            labels=["api", "asker"],
        )
        for asker, counted in (("client", self.of_clients), ("replica", self.of_replicas)):
            for api, histogram in counted.items():
                if histogram.count:
                    histogram.add_to(took, [api, asker])
        return took

    def _failures(self) -> Iterator[Metric]:
        errors = CounterMetricFamily(
            "replica_request_errors",
            "Errors in answers, each partition for itself, and statuses that have ended calls.",
            labels=["api", "error"],
        )
        fenced = CounterMetricFamily(
            "replica_fenced_requests",
            "Of these errors, those that keep out who acts on an epoch that is over, or has not come yet.",
            labels=["error"],
        )
        found = tuple(self._errors.items())
        for (api, error), count in found:
            errors.add_metric([api, str(error)], count)
        for fencing in FENCING:
            fenced.add_metric([fencing.value], sum(count for (_, error), count in found if error == fencing))
        yield from (errors, fenced)


def _histograms() -> Mapping[str, Histogram]:
    return {method.rpc: Histogram(REQUEST_BUCKETS_SECONDS) for method in METHODS.values()}
