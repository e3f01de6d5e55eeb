"""What becomes of a call without a usable answer: whether the request may have been carried out."""

from __future__ import annotations


class TransportError(Exception):
    """No usable answer came; whether the request was carried out is unknown."""


class NotAppliedError(TransportError):
    """No answer came, and the request certainly was not carried out: never sent, or refused at the door."""


class RefusedError(NotAppliedError):
    """The connection was refused at once: nobody listens there."""


class MalformedRequestError(NotAppliedError):
    """The other side takes no such request: a field breaks a rule or a bound. To repeat it is in vain."""
