"""The workload ``bank``: accounts among which money is moved by transactions, and which are read all at once.

Owns the mix, and what a transfer rests on: the last look at all accounts that anybody had. It writes two accounts if
neither has changed since then, and else reads them all; so money is neither made nor lost, and every balance of a read
is of one moment. Source: Jepsen's workload ``bank``.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from nemesis.cluster.store import Answer, Found
from nemesis.history import OPEN, READ, TRANSFER
from nemesis.workload.objects import Process

ACCOUNTS = 5
BALANCE = 100
AMOUNT_MAX = 5
READ_SHARE = 0.4
NOTHING_THERE = 0
"""The revision at which a key was changed that is not there."""


class BankUse:
    """Opens, transfers, reads."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._seen: dict[str, Mapping[int, Found]] = {}

    async def act(self, process: Process, name: str) -> None:
        """Open a bank that nobody has seen open, else do what the dice say."""
        if name not in self._seen:
            await self._open(process, name)
        elif self._random.random() < READ_SHARE or len(self._seen[name]) < 2:
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
        source, target = self._random.sample(sorted(seen), 2)
        amount = self._random.randint(1, AMOUNT_MAX)
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
