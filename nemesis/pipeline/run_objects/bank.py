"""A bank: accounts that are opened together, and transfers of which each rests on two balances that were seen.

``open`` takes the accounts, pairs of account and balance, and does nothing where there are some. ``transfer`` takes
(source, target, amount, balance of the source, balance of the target) and is done only where these are the balances.
``read`` returns all accounts, so that whatever does not keep the total shows. Source: Jepsen's workload ``bank``.
"""

from __future__ import annotations

from typing import ClassVar

from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value

Accounts = tuple[tuple[int, int], ...]
"""Pairs of account and balance, by account."""


class Bank(Model):
    """The state is the accounts with their balances; none before they are opened."""

    name: ClassVar[str] = "bank"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """No accounts."""
        return ()

    def reads_only(self, operation: Operation) -> bool:
        """True for reads."""
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
