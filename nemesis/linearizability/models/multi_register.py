"""Several registers, read and written by transactions that take effect at one moment.

``txn`` takes a tuple of ("r", register, None) and ("w", register, value), and returns it with the values that were
read. A register that was never written holds nil. Source: the model ``multi-register`` of Knossos.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar

from nemesis.linearizability.model import REFUSED, Model, ModelError, Refusal, unknown_operation
from nemesis.linearizability.operations import Operation, Outcome, Value

Micro = tuple[str, Hashable, Value]


class MultiRegister(Model):
    """Registers under transactions: the state is the set of (register, value) that were written."""

    name: ClassVar[str] = "multi-register"
    process_matters: ClassVar[bool] = False

    def initial(self) -> Value:
        """No register was written."""
        return frozenset()

    def reads_only(self, operation: Operation) -> bool:
        """True if the transaction writes nothing."""
        return all(action == "r" for action, _, _ in self._micros(operation))

    def step(self, state: Value, operation: Operation) -> Value | Refusal:
        """One after another, all at once."""
        assert isinstance(state, frozenset), f"the state of {self.name} is a set, not {state!r}"
        registers: dict[Hashable, Value] = dict(state)
        for action, register, value in self._micros(operation):
            if action == "w":
                registers[register] = value
            elif operation.outcome is Outcome.OK and registers.get(register) != value:
                return REFUSED
        return frozenset(registers.items())

    def partition(self, operations: Iterable[Operation]) -> dict[Hashable, list[Operation]]:
        """By the key, and within it by the registers that some chain of transactions connects."""
        parts: dict[Hashable, list[Operation]] = {}
        for key, alike in super().partition(operations).items():
            parents: dict[Hashable, Hashable] = {}
            for operation in alike:
                registers = [register for _, register, _ in self._micros(operation)]
                for register in registers:
                    parents[_root(parents, register)] = _root(parents, registers[0])
            for operation in alike:
                micros = self._micros(operation)
                part = _root(parents, micros[0][1]) if micros else None
                parts.setdefault(part if key is None else (key, part), []).append(operation)
        return parts

    def _micros(self, operation: Operation) -> tuple[Micro, ...]:
        if operation.f != "txn":
            raise unknown_operation(self, operation)
        asked = _micros_of(operation.argument, operation)
        if operation.outcome is not Outcome.OK:
            return asked
        told = _micros_of(operation.result, operation)
        if list(map(_asked, asked)) != list(map(_asked, told)):
            raise ModelError(f"line {operation.line}: txn of {asked!r} returned {told!r}, an answer to something else")
        return told


def _micros_of(value: Value, operation: Operation) -> tuple[Micro, ...]:
    if not isinstance(value, tuple) or any(not _is_micro(micro) for micro in value):
        raise ModelError(f"line {operation.line}: txn takes a tuple of ('r' or 'w', register, value): {value!r}")
    return value


def _is_micro(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and value[0] in {"r", "w"}


def _asked(micro: Micro) -> Micro:
    """What a completion repeats: all but what was read."""
    action, register, value = micro
    return action, register, value if action == "w" else None


def _root(parents: dict[Hashable, Hashable], register: Hashable) -> Hashable:
    """The register that stands for all that are connected with this one."""
    while (parent := parents.setdefault(register, register)) != register:
        parents[register] = parents[parent]
        register = parents[register]
    return register
