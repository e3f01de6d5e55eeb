"""The key-value store against a plain one: thousands of random commands, and equal answers to all of them."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from replica.machines.key_value import (
    KeyValueMachine,
    commands,
    decode_response,
    encode_command,
    encode_request,
    results,
)
from replica.machines.key_value.store import Store
from tests.machines.key_value_commands import KeyValueCommands
from tests.machines.naive_key_value import NaiveKeyValue

SEEDS = 12
COMMANDS = 400


def silent(response: results.Response) -> results.Response:
    """A response without what it says to people."""
    match response.result:
        case results.Rejected(error=error):
            return replace(response, result=results.Rejected(error=error, message=""))
        case _:
            return response


def first_difference(seed: int, machine: KeyValueMachine, *, count: int) -> str | None:
    """Run random commands and questions through both stores, restored now and then; tell where they part."""
    random = Random(seed)
    generated, naive = KeyValueCommands(random), NaiveKeyValue()
    time_ms = 0
    for number in range(count):
        time_ms += random.choice([0, 0, 1, 50])
        machine.advance(time_ms)
        naive.advance(time_ms)
        command = generated.command()
        response = decode_response(machine.apply(encode_command(command), time_ms=time_ms))
        expected = naive.apply(command)
        if silent(response) != expected:
            return f"seed {seed}, command {number}: {command}\n{response}\n{expected}"
        generated.revision = naive.revision
        for _ in range(2):
            request = generated.request()
            response = decode_response(machine.query(encode_request(request)))
            expected = naive.query(request)
            if silent(response) != expected:
                return f"seed {seed}, question {number}: {request}\n{response}\n{expected}"
        if random.randrange(40) == 0:
            machine.restore(machine.view().encode())
    return None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_answer_is_the_plain_stores(seed: int) -> None:
    """Commands that are done, refused or half way impossible, and questions on any revision, are answered alike."""
    assert first_difference(seed, KeyValueMachine(), count=COMMANDS) is None


def test_the_commands_reach_everything() -> None:
    """Every kind of command, and every error but those on sizes, comes up in so many random commands."""
    seen: set[str] = set()
    for seed in range(SEEDS):
        random = Random(seed)
        generated, naive = KeyValueCommands(random), NaiveKeyValue()
        for time_ms in range(0, COMMANDS * 10, 10):
            naive.advance(time_ms)
            command = generated.command()
            result = naive.apply(command).result
            generated.revision = naive.revision
            seen |= {type(command).__name__, type(result).__name__}
            seen |= {result.error.value} if isinstance(result, results.Rejected) else set()
    errors = {error.value for error in results.KeyValueError}
    sizes = {
        "EMPTY_KEY",
        "KEY_TOO_LARGE",
        "VALUE_TOO_LARGE",
        "TOO_MANY_OPERATIONS",
        "TOO_MANY_LEASES",
        "ANSWER_TOO_LARGE",
    }
    assert errors - sizes - seen == set()
    assert {kind.__name__ for kind in commands.Command.__args__} - seen == set()


class _ForgetfulStore(Store):
    """Forgets at a compaction what stands at its revision, if there is anything later."""

    def _trim(self, key: bytes, revision: int) -> None:
        super()._trim(key, revision + 1)


class _Forgetful(KeyValueMachine):
    """A machine with that store."""

    def __init__(self) -> None:
        super().__init__()
        self._state.store = _ForgetfulStore()


class _Immortal(KeyValueMachine):
    """Lets no lease expire."""

    def advance(self, time_ms: int) -> None:
        """Time stands still."""

    def apply(self, command: bytes, *, time_ms: int) -> bytes:
        """At no time."""
        return super().apply(command, time_ms=0)


def is_found(wrong: KeyValueMachine, seed: int) -> bool:
    """Tell whether a wrong store is noticed: by its answers, or because it stumbles over its own state."""
    try:
        return first_difference(seed, wrong, count=COMMANDS) is not None
    except (AssertionError, LookupError):
        return True


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [_Forgetful, _Immortal])
def test_a_wrong_store_is_found(wrong: type[KeyValueMachine]) -> None:
    """A store that forgets too much, and one in which nothing expires, part from the plain one."""
    assert sum(is_found(wrong(), seed) for seed in range(SEEDS)) > SEEDS // 2
