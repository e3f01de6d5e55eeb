"""What the failures of the client that changes voters say of the change."""

from __future__ import annotations

import pytest

from nemesis.cluster.operators import outcome_of
from nemesis.errors import NotDoneError, UnknownOutcomeError
from replica.client.failures import ClientError, ClusterUnreachableError, ReadFailedError
from replica.client.groups.failures import (
    TransferFailedError,
    UnknownGroupError,
    VotersNotChangedError,
    VotersUnknownError,
)


@pytest.mark.parametrize("error", [VotersNotChangedError("no"), TransferFailedError("no"), UnknownGroupError("kv")])
async def test_a_refusal_says_that_nothing_is_done(error: ClientError) -> None:
    """What is definitely not made is told so, and never as made."""
    with pytest.raises(NotDoneError, match=str(error)):
        await outcome_of(_failing(error))


@pytest.mark.parametrize("error", [VotersUnknownError("?"), ReadFailedError("?"), ClusterUnreachableError("?")])
async def test_whatever_else_fails_may_be_done(error: ClientError) -> None:
    """What says nothing of the change leaves it unknown: a disk that it was to free is not wiped."""
    with pytest.raises(UnknownOutcomeError):
        await outcome_of(_failing(error))


async def _failing(error: ClientError) -> None:
    raise error
