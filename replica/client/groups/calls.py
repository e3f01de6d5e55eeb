"""One attempt to have entries applied: the leader is found, asked once, and its answer judged.

Owns what an attempt teaches about who leads. Knows nothing of sessions, nor of when an attempt is worth repeating.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replica.client.asking import Failed
from replica.client.groups.verdicts import Step, Verdict, verdict_of
from replica.client.groups.view import GroupView
from replica.core.messages import ApplyRequest, ApplyResponse
from replica.errors import AUTHORIZATION_FAILED, ErrorCode
from replica.machines import Entry, encode_entry
from replica.rpc.transport import TransportError


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What has come of an attempt. ``is_worth_repeating_at_once``: it has told who leads."""

    verdict: Verdict
    no_such_group: bool = False
    is_worth_repeating_at_once: bool = False


async def attempt_apply(view: GroupView, entries: Callable[[], tuple[Entry, ...]], timeout_ms: int) -> Attempt:
    """Have entries applied, once. ``entries`` is asked for them when a leader is found, and they are sent at once.

    Without any entries nobody is asked.
    """
    deadline = view.deadline(timeout_ms)
    endpoint = await view.find_leader(deadline)
    if isinstance(endpoint, Failed):
        step = Step.GIVE_UP if endpoint.error in AUTHORIZATION_FAILED else Step.REPEAT
        nobody = Verdict(step=step, may_be_applied=False, reason=endpoint.reason, error=endpoint.error)
        return Attempt(verdict=nobody, no_such_group=endpoint.no_such_group)
    encoded = tuple(map(encode_entry, entries()))
    if not encoded:
        nothing = Verdict(step=Step.REPEAT, may_be_applied=False, reason="nobody waits for it any longer")
        return Attempt(verdict=nothing)
    request = ApplyRequest(
        topic_partition=view.group,
        entries=encoded,
        timeout_ms=deadline.left_ms(),
        cluster_id=view.config.cluster_id,
    )
    try:
        answer = await view.call(endpoint, request, request.timeout_ms)
    except TransportError as error:
        view.on_failure(endpoint)
        return Attempt(verdict=verdict_of(error, entries=len(encoded), who=str(endpoint)))
    assert isinstance(answer, ApplyResponse), answer
    is_news = view.on_hint(answer.current_leader)
    if answer.error not in (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE) and not is_news:
        view.on_failure(endpoint)
    verdict = verdict_of(answer, entries=len(encoded), who=str(endpoint))
    return Attempt(verdict=verdict, is_worth_repeating_at_once=is_news and verdict.step is Step.REPEAT)
