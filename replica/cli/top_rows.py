"""What ``replica top`` shows: pages of metrics, read twice, as rows.

Owns which metrics are looked at, and what becomes of two readings of a counter: a rate, or nothing where the process
began anew in between. A page is text that may come from anybody who serves at that address: it is bounded, and what
cannot be read is told as a failure.
"""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, nan
from typing import Any

TIMEOUT_S = 3.0
PAGE_BYTES_MAX = 64 << 20
"""More than a replica with ten thousand partitions serves."""

Labels = tuple[tuple[str, str], ...]

_SAMPLE = re.compile(r"(replica_\w+|process_resident_memory_bytes)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="([\w.+-]*)"')
"""Ids, topics, roles and bounds have no other characters; what else a label says is for no terminal."""
_METADATA = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One reading of one replica's metrics: by name, the values by their labels. ``failure`` says why there is none."""

    address: str
    at_s: float = 0.0
    metrics: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    failure: str | None = None

    def total(self, name: str) -> float | None:
        """The sum of a metric over all its labels; absent where there is none."""
        found = self.metrics.get(name)
        return sum(found.values()) if found else None

    @property
    def replica_id(self) -> str | None:
        """Whose page it is."""
        return next((dict(has).get("replica_id") for has in self.metrics.get("replica_info", {})), None)


def read_page(address: str) -> Page:
    """Read a page over HTTP, past every proxy."""
    try:
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=TIMEOUT_S)
        try:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            text = response.read(PAGE_BYTES_MAX + 1)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return Page(address=address, failure=_printable(str(error) or type(error).__name__))
    if response.status != http.HTTPStatus.OK or len(text) > PAGE_BYTES_MAX:
        return Page(address=address, failure=f"no page of metrics: status {response.status}, {len(text)} bytes")
    return page_of(address, text.decode(errors="replace"), time.monotonic())


def page_of(address: str, text: str, at_s: float) -> Page:
    """Read the samples of a page; lines of others are passed over."""
    metrics: dict[str, dict[Labels, float]] = {}
    for name, labels, value in _samples(text):
        metrics.setdefault(name, {})[labels] = value
    failure = None if "replica_info" in metrics else "no page of a replica's metrics"
    return Page(address=address, at_s=at_s, metrics=metrics, failure=failure)


def _samples(text: str) -> Iterator[tuple[str, Labels, float]]:
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found is not None:
            value = _number(found[3])
            if isfinite(value):
                yield found[1], tuple(sorted(_LABEL.findall(found[2] or ""))), value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


# --- rows -----------------------------------------------------------------------------------------------------------


def rows_of(before: Sequence[Page], now: Sequence[Page]) -> list[dict[str, Any]]:
    """One row for each page, in the order in which they were named."""
    lags = _lags(now)
    return [_row(then, page, lags) for then, page in zip(before, now, strict=True)]


def summary_of(before: Sequence[Page], now: Sequence[Page]) -> str:
    """One line about the whole: what the active controller says, and the sums of what leaders say."""
    active = next((page for page in now if page.total("replica_active_controller_count")), None)
    written = [rate for then, page in zip(before, now, strict=True) if (rate := _written(then, page)) is not None]
    sums = ", ".join(
        f"{sum(int(page.total(name) or 0) for page in now)} {what}"
        for name, what in (
            ("replica_leader_count", "partitions led"),
            ("replica_under_replicated_partitions", "under-replicated"),
            ("replica_under_min_isr_partition_count", "under min ISR"),
            ("replica_offline_replica_count", "damaged or on failed disks"),
            ("replica_offline_log_directory_count", "failed log directories"),
        )
    )
    answered = f"{sum(page.failure is None for page in now)} of {len(now)} pages read"
    if active is None:
        return f"no active controller among them; {sums}; {answered}"
    offline = round(active.total("replica_offline_partitions_count") or 0)
    fenced = round(active.total("replica_fenced_broker_count") or 0)
    return (
        f"controller {active.replica_id}; {sums}, {offline} offline; {fenced} brokers fenced; "
        f"{round(sum(written))} records/s; {answered}"
    )


def failures_of(now: Sequence[Page]) -> list[str]:
    """One line for each page that could not be read."""
    return [f"{page.address}: {page.failure}" for page in now if page.failure is not None]


def _row(then: Page, page: Page, lags: Mapping[str, float]) -> dict[str, Any]:
    flushes, delays = "replica_flush_seconds_bucket", "replica_event_loop_delay_seconds_bucket"
    memory = page.total("process_resident_memory_bytes")
    return {
        "address": page.address,
        "id": page.replica_id,
        "role": _role(page),
        "ready": None if page.failure else bool(page.total("replica_ready")),
        "leads": _whole(page.total("replica_leader_count")),
        "hosts": _whole(page.total("replica_partition_count")),
        "under_repl": _whole(page.total("replica_under_replicated_partitions")),
        "lag": _whole(lags.get(page.replica_id or "")),
        "records/s": _whole(_written(then, page)),
        "calls/s": _whole(_rate(then, page, "replica_request_seconds_count")),
        "errors/s": _whole(_rate(then, page, "replica_request_errors_total")),
        "flush": _ms(quantile(0.99, _buckets(then, flushes), _buckets(page, flushes))),
        "loop": _ms(quantile(0.99, _buckets(then, delays), _buckets(page, delays))),
        "mib": _whole(None if memory is None else memory / (1 << 20)),
    }


def _role(page: Page) -> str:
    """What the replica is to the cluster: its controller, or its role in the quorum that elects that."""
    if page.failure is not None:
        return "unreachable"
    if page.total("replica_active_controller_count"):
        return "controller"
    roles = page.metrics.get("replica_role", {})
    return next((dict(has).get("role", "") for has in roles if dict(has).get("topic") == _METADATA), "unknown")


def _lags(pages: Sequence[Page]) -> Mapping[str, float]:
    """The most that each broker has not fetched of a log, by what the logs' leaders say."""
    lags: dict[str, float] = {}
    for page in pages:
        for has, lag in page.metrics.get("replica_follower_lag", {}).items():
            follower = dict(has).get("follower", "")
            lags[follower] = max(lag, lags.get(follower, 0))
    return lags


def _rate(then: Page, page: Page, name: str) -> float | None:
    """How much a counter has grown a second; absent where it has begun anew, or one of the readings failed.

    A counter that was not there yet was nothing.
    """
    if then.failure or page.failure or page.at_s <= then.at_s:
        return None
    growth = (page.total(name) or 0) - (then.total(name) or 0)
    return growth / (page.at_s - then.at_s) if growth >= 0 else None


def _written(then: Page, page: Page) -> float | None:
    """How many records a second were written to the logs that this replica led at both readings."""
    if then.failure or page.failure or page.at_s <= then.at_s:
        return None
    growth = sum(
        max(0.0, end - then.metrics["replica_log_end_offset"][log])
        for log, end in page.metrics.get("replica_log_end_offset", {}).items()
        if _is_led(then, log) and _is_led(page, log) and dict(log).get("topic") != _METADATA
    )
    return growth / (page.at_s - then.at_s)


def _is_led(page: Page, log: Labels) -> bool:
    led = tuple(sorted((*log, ("role", "leader"))))
    return led in page.metrics.get("replica_role", {}) and log in page.metrics.get("replica_log_end_offset", {})


def _buckets(page: Page, name: str) -> Mapping[float, float]:
    """The buckets of a histogram, all of its label values together, by their bounds."""
    found: dict[float, float] = {}
    for has, value in page.metrics.get(name, {}).items():
        bound = _number(dict(has).get("le", ""))
        if not isnan(bound):
            found[bound] = found.get(bound, 0) + value
    return found


def quantile(share: float, before: Mapping[float, float], now: Mapping[float, float]) -> float | None:
    """Estimate below what ``share`` of the values between two readings are; absent where there were none.

    Within a bucket values count as evenly spread; those above the last bound count as that. (Prometheus'
    ``histogram_quantile``.)
    """
    grown = [(bound, now[bound] - before.get(bound, 0)) for bound in sorted(now)]
    if not grown or grown[-1][1] <= 0 or any(count < 0 for _, count in grown):
        return None
    rank, below, lower = share * grown[-1][1], 0.0, 0.0
    for bound, count in grown:
        if count >= rank:
            return lower if bound == inf else lower + (bound - lower) * (rank - below) / (count - below)
        below, lower = count, bound
    return lower


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
