"""Certificates that are renewed: in which order, and that whoever shows an old one is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nemesis.faults.certificates import RotateCertificates
from nemesis.schedules.schedule import Heal, Inject
from tests.faults.stage import Stage
from tests.workload.fake_system import FakeSystem

ROTATE = Inject(fault_id=0, fault=RotateCertificates())


class FakeCertificates:
    """Notes what is done; ``shows`` is who answers, and whether with its newest certificate."""

    def __init__(self, shows: Mapping[int, bool]) -> None:
        self.shows = shows
        self.done: list[str] = []

    async def renew(self) -> None:
        self.done.append("renew")

    async def forget(self) -> None:
        self.done.append("forget")

    async def shown(self, nodes: Sequence[int]) -> Mapping[int, bool]:
        self.done.append("shown")
        return {node: self.shows[node] for node in nodes if node in self.shows}


class CertifiedSystem(FakeSystem):
    """A fake whose nodes have certificates."""

    def __init__(self, shows: Mapping[int, bool]) -> None:
        super().__init__()
        self.certificates = FakeCertificates(shows)


@pytest.mark.parametrize(
    ("shows", "ended"),
    [
        ({1: True, 2: True, 3: True}, "info"),
        ({1: True}, "info"),
        ({1: True, 2: False, 3: True}, "fail"),
    ],
    ids=["all show the new one", "two do not answer", "one shows the old one"],
)
async def test_whoever_shows_a_certificate_that_was_replaced_is_found_out(
    shows: Mapping[int, bool], ended: str, tmp_path: Path
) -> None:
    """All are asked before the old authority goes; one that shows an old certificate fails the healing."""
    system = CertifiedSystem(shows)
    stage = Stage(tmp_path, system)
    await stage.do(ROTATE, Heal(fault_id=0))
    assert system.certificates.done == ["renew", "shown", "forget"]
    assert stage.told()[-1] == ("retire-authority", ended, [1, 2, 3])
