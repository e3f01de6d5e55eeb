"""The workload ``bank``: accounts among which money is moved by transactions, and which are read all at once.

Owns the mix, and what a transfer rests on: the last look at all accounts that anybody had. It writes two accounts if
neither has changed since then, and else reads them all; so money is neither made nor lost, and every balance of a read
is of one moment. Owns the model, too: ``open`` takes the accounts, pairs of account and balance, and does nothing where
there are some. ``transfer`` takes (source, target, amount, balance of the source, balance of the target) and is done
only where these are the balances. ``read`` returns all accounts, so that whatever does not keep the total shows.
Source: Jepsen's workload ``bank``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from nemesis.cluster.store import Answer, Found, Verb
from nemesis.history.events import READ
from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value
from nemesis.workload.encoding import Encoding, pairs_of
from nemesis.workload.objects import ObjectWorkload, Process
from nemesis.workload.workload import Setup

OPEN, TRANSFER = "open", "transfer"
ACCOUNTS = 5
BALANCE = 100
AMOUNT_MAX = 5
READ_SHARE = 0.4
NOTHING_THERE = 0
"""The revision at which a key was changed that is not there."""


class Bank(Model):
    """The state is the accounts with their balances; none before they are opened."""

    name: ClassVar[str] = "bank"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """No accounts."""
        return ()

    def reads_only(self, operation: Operation) -> bool:
        return operation.f == "read"

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """Open what is not open, move what is there, read all."""
        assert isinstance(state, tuple), f"the state of a bank is its accounts, not {state!r}"
        match operation.f:
            case "open":
                return REFUSED if state else operation.argument
            case "transfer":
                return _after_transfer(dict(state), operation)
            case "read":
                known = operation.outcome is Outcome.OK
                return state if not known or operation.result == state else REFUSED
            case _:
                raise unknown_operation(self, operation)

    def describe_state(self, state: Value) -> str:
        """The balances, and their total."""
        assert isinstance(state, tuple), f"the state of a bank is its accounts, not {state!r}"
        balances = ", ".join(f"{account}: {balance}" for account, balance in state)
        return f"{{{balances}}}, {sum(balance for _, balance in state)} in all" if state else "nothing opened"


def _after_transfer(balances: dict[int, int], operation: Operation) -> Value | Refusal:
    if not isinstance(operation.argument, tuple) or len(operation.argument) != 5:
        raise ModelError(f"line {operation.line}: a transfer takes five numbers, not {operation.argument!r}")
    source, target, amount, seen_source, seen_target = operation.argument
    if (balances.get(source), balances.get(target)) != (seen_source, seen_target):
        return REFUSED
    balances[source] -= amount
    balances[target] += amount
    return tuple(sorted(balances.items()))


class BankWorkload(ObjectWorkload):
    """Opens, transfers, reads."""

    name = "bank"
    an_object = "five keys"
    operations = "open, transfer between two of them if neither has changed since it was seen, read of all"
    verbs = frozenset({Verb.GET_ALL, Verb.PUT_ALL_IF})
    model = Bank()
    encodings: ClassVar[Mapping[str, Encoding]] = {
        OPEN: Encoding(argument=lambda _, asked: pairs_of(asked["accounts"])),
        TRANSFER: Encoding(argument=lambda value, asked: (asked["from"], asked["to"], value, *asked["expected"])),
        READ: Encoding(result=lambda _, told: tuple(sorted(pairs_of(told.get("accounts", ()))))),
    }

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._seen: dict[str, Mapping[int, Found]] = {}

    async def act(self, process: Process, name: str) -> None:
        """Open a bank that nobody has seen open, else do what the dice say."""
        if name not in self._seen:
            await self._open(process, name)
        elif self.setup.random.random() < READ_SHARE or len(self._seen[name]) < 2:
            await self.read(process, name)
        else:
            await self._transfer(process, name)

    async def read(self, process: Process, name: str) -> Answer | None:
        """Read all accounts at one revision."""
        answer = await process.do(READ, name, process.client.get_all(_below(name)), told=_accounts)
        self._note(name, answer)
        return answer

    async def _open(self, process: Process, name: str) -> None:
        keys = [_key(name, account) for account in range(ACCOUNTS)]
        call = process.client.put_all_if(_below(name), dict.fromkeys(keys, NOTHING_THERE), dict.fromkeys(keys, BALANCE))
        accounts = [[account, BALANCE] for account in range(ACCOUNTS)]
        answer = await process.do(OPEN, name, call, told=_accounts, accounts=accounts)
        if answer is not None and answer.done:
            found = Found(value=BALANCE, changed_at=answer.revision)
            self._seen[name] = dict.fromkeys(range(ACCOUNTS), found)
        else:
            self._note(name, answer)

    async def _transfer(self, process: Process, name: str) -> None:
        seen = self._seen[name]
        source, target = self.setup.random.sample(sorted(seen), 2)
        amount = self.setup.random.randint(1, AMOUNT_MAX)
        before = {account: seen[account] for account in (source, target)}
        after = {source: before[source].value - amount, target: before[target].value + amount}
        call = process.client.put_all_if(
            _below(name),
            {_key(name, account): found.revision for account, found in before.items()},
            {_key(name, account): balance for account, balance in after.items()},
        )
        expected = [found.value for found in before.values()]
        asked = {"from": source, "to": target, "expected": expected}
        answer = await process.do(TRANSFER, name, call, told=_accounts, value=amount, **asked)
        if answer is not None and answer.done:
            changed = {account: Found(value=after[account], changed_at=answer.revision) for account in after}
            self._seen[name] = {**seen, **changed}
        else:
            self._note(name, answer)

    def _note(self, name: str, answer: Answer | None) -> None:
        if answer is not None and answer.found:
            self._seen[name] = _by_account(answer)


def _key(name: str, account: int) -> str:
    return f"{name}/{account}"


def _below(name: str) -> str:
    return f"{name}/"


def _by_account(answer: Answer) -> Mapping[int, Found]:
    return {int(key.rpartition("/")[2]): found for key, found in answer.found.items()}


def _accounts(answer: Answer) -> Mapping[str, Any]:
    """What all accounts hold; nothing is told by a change that was done."""
    accounts = sorted([account, found.value] for account, found in _by_account(answer).items())
    return {"accounts": accounts} if accounts else {}
