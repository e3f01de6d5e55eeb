"""What becomes of a call without a usable answer: whether the request may have been carried out."""

from __future__ import annotations

from replica.errors import ErrorCode


class TransportError(Exception):
    """No usable answer came; whether the request was carried out is unknown."""


class NotAppliedError(TransportError):
    """No answer came, and the request certainly was not carried out: never sent, or refused at the door."""


class RefusedError(NotAppliedError):
    """The connection was refused at once: nobody listens there."""


class MalformedRequestError(NotAppliedError):
    """The other side takes no such request: a field breaks a rule or a bound. To repeat it is in vain."""

    error = ErrorCode.INVALID_REQUEST


class UnknownRequestError(MalformedRequestError):
    """The other side offers no such request there: it runs an older release, or others ask it elsewhere. In vain."""

    error = ErrorCode.UNSUPPORTED_VERSION


class DeniedError(MalformedRequestError):
    """The other side takes no such request of whoever this is, by certificate or token. To repeat it is in vain."""

    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
