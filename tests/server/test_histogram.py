"""Histograms in plain numbers show what those of prometheus_client would."""

from __future__ import annotations

import random

import prometheus_client
from prometheus_client.core import HistogramMetricFamily

from replica.server.histogram import Histogram

BOUNDS = (0.001, 0.01, 0.1, 1.0)


def test_a_page_shows_what_prometheus_would_have_counted() -> None:
    """Over random values, those on a bound and above the last among them, buckets, count and sum are the same."""
    drawn = random.Random(5)
    values = [*BOUNDS, 0.0, 7.0, *(drawn.expovariate(20) for _ in range(500))]
    known = prometheus_client.Histogram("took", "t", ["api"], registry=None, buckets=BOUNDS)
    ours, family = Histogram(BOUNDS), HistogramMetricFamily("took", "t", labels=["api"])
    for value in values:
        known.labels("a").observe(value)
        ours.observe(value)
    ours.add_to(family, ["a"])
    (expected,) = known.collect()
    told = {(sample.name, sample.labels.get("le")): sample.value for sample in expected.samples}
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert found == {key: value for key, value in told.items() if key[0] != "took_created"}
    assert ours.count == len(values)
