"""The image that follows from records: one after the other, or many at once."""

from __future__ import annotations

from functools import reduce

from replica.core.metadata.image import MetadataImage
from tests.core.metadata.test_metadata_snapshots import RECORDS, partition


def test_records_at_once_lead_to_the_image_to_which_they_lead_one_by_one() -> None:
    """Of one topic or of several, new or changed; and what was taken from an image before stays as it was."""
    records = [*RECORDS, partition(20, 0, 5), partition(20, 2, 1), partition(30, 0, 1), partition(20, 0, 6)]
    one_by_one = reduce(MetadataImage.apply, records, MetadataImage())
    before = MetadataImage().apply_all(RECORDS)
    seen = repr(before)
    assert repr(before.apply_all(records[len(RECORDS) :])) == repr(one_by_one)
    assert repr(before) == seen
