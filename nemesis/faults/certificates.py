"""Certificates that are renewed while all goes on: a new authority, and new certificates for everybody by that.

Owns the fault, and that whoever does not show the new certificate is found out. How they are renewed is the system's
business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.faults.breakable import HasCertificates, SystemCertificates
from nemesis.faults.family import Family, Healed, OpenFault
from nemesis.faults.fault import Fault
from nemesis.faults.links import Link
from nemesis.faults.look import CHANGED
from nemesis.faults.needs import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateCertificates(Fault):
    """A new authority, believed beside the old one, has signed new certificates for all replicas and clients.

    Healed when the old authority is believed no more, and every replica that runs shows its new certificate.
    """

    kind = "rotate-certificates"
    does = (
        "a new authority, believed beside the old one, signs new certificates for all replicas and clients; nobody is "
        "restarted. With `--tls`"
    )
    undone = "each replica that answers must show its new certificate, and the old authority is believed no more"
    healer = "retire-authority"
    need = Need.CERTIFICATES
    look = CHANGED
    drawn_as = 29
    comes_one_at_a_time = True

    def concerns(self, nodes: Sequence[int], about: Sequence[int], links: frozenset[Link]) -> tuple[int, ...]:
        """All."""
        del about, links
        return tuple(nodes)


class Rotations(Family[RotateCertificates]):
    """Renews certificates, and looks for who has not."""

    faults = (RotateCertificates,)

    async def strike(self, opened: OpenFault[RotateCertificates]) -> tuple[int, ...]:
        """Give everybody new ones; whoever is down or paused finds them when it is back."""
        await self._certificates.renew()
        return opened.nodes

    async def heal(self, opened: OpenFault[RotateCertificates]) -> Healed:
        """Look who shows the new ones, and let nobody believe the old authority any more."""
        shown = await self._certificates.shown(opened.nodes)
        await self._certificates.forget()
        behind = [node for node, is_newest in shown.items() if not is_newest]
        error = f"replicas {behind} show certificates that were replaced" if behind else None
        return Healed(error=error, detail={"shown": [node for node in shown if node not in behind]})

    @property
    def _certificates(self) -> SystemCertificates:
        assert isinstance(self._system, HasCertificates), "it has what the fault needs"
        return self._system.certificates
