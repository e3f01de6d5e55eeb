"""The judge of images looks only at what has changed, and convicts whatever has."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nemesis.simulator.node import Node, Step
from nemesis.simulator.run import SimOptions, simulate
from nemesis.simulator.world import Observer
from nemesis.variants.worlds import WorldKind
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.replay import MetadataReplay
from replica.ids import Offset


def other_image(metadata: MetadataReplay) -> None:
    """Forget all topics, at the same offset."""
    metadata.image = replace(metadata.image, topics={})


def other_offset(metadata: MetadataReplay) -> None:
    """Claim to be further, with the very same image."""
    metadata.applied_offset = Offset(metadata.applied_offset + 1)


class Forger(Observer):
    """Changes what a replica believes, once its image has topics and was judged unchanged before."""

    def __init__(self, forge: Callable[[MetadataReplay], None]) -> None:
        self.forged_at_ms: int | None = None
        self._forge = forge
        self._before: MetadataImage | None = None

    def on_step(self, node: Node, step: Step) -> None:
        """See ``Observer``: observers see a step before it is judged."""
        if node.replica_id != 1 or node.core is None or not step.is_whole or not node.core.metadata.image.topics:
            return
        if self.forged_at_ms is None and node.core.metadata.image is self._before:
            self.forged_at_ms = node.now_ms
            self._forge(node.core.metadata)
        self._before = node.core.metadata.image


@pytest.mark.parametrize("forge", [other_image, other_offset])
def test_an_image_that_is_not_the_committed_one_convicts(forge: Callable[[MetadataReplay], None]) -> None:
    """Another image at the same offset, and the same image at another offset, are noticed by the very step."""
    forger = Forger(forge)
    violation = simulate(SimOptions(seed=3, world=WorldKind.CLUSTER), [forger]).outcome.violation
    assert forger.forged_at_ms is not None
    assert violation is not None
    assert violation.name == "metadata-log-matching"
