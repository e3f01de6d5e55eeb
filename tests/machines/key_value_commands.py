"""Random commands and questions for a key-value store: few keys, so that they meet, and some that cannot be done."""

from __future__ import annotations

from random import Random

from replica.machines.key_value import KeyRange, LeaseId, commands, prefix, single
from replica.machines.key_value.commands import NumberField, Operator

KEYS = (b"a", b"a/1", b"a/2", b"b", b"b\xff", b"b\xff\xff", b"c", b"\xff", b"\xff\xff")
VALUES = (b"", b"0", b"7", b"-1", b"9223372036854775807", b"x", b"007", b"1_0")


class KeyValueCommands:
    """Commands for a store that is at about some revision, and has given away about so many leases."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.revision = 1
        self.leases = 0

    def command(self) -> commands.Command:
        """One command."""
        random = self._random
        match random.choice("oooooovvmmttttglkrc"):
            case "o":
                return self._operation()
            case "v":
                expected = random.choice([None, *VALUES])
                return commands.CompareAndSetValue(key=self._key(), expected=expected, value=self._value())
            case "m":
                return commands.CompareAndSetRevision(
                    key=self._key(), mod_revision=self._revision() - 1, value=self._value(), lease_id=self._lease()
                )
            case "t":
                return commands.Transaction(
                    comparisons=tuple(self._comparison() for _ in range(random.randrange(3))),
                    then=tuple(self._operation() for _ in range(random.randrange(4))),
                    otherwise=tuple(self._operation() for _ in range(random.randrange(4))),
                )
            case "g" | "l":
                self.leases += 1
                return commands.GrantLease(ttl_ms=random.randrange(500))
            case "k":
                return commands.KeepLeaseAlive(lease_id=self._lease() or LeaseId(1))
            case "r":
                return commands.RevokeLease(lease_id=self._lease() or LeaseId(1))
            case _:
                return commands.Compact(revision=max(1, self._revision() - random.randrange(10)))

    def request(self) -> commands.Request:
        """One question."""
        random = self._random
        match random.randrange(6):
            case 0:
                return commands.Get(key=self._key(), revision=self._past())
            case 1 | 2:
                return commands.Range(keys=self._keys(), limit=random.choice([None, 1, 2, 5]), revision=self._past())
            case 3:
                return commands.DescribeStore()
            case 4:
                return commands.DescribeLease(lease_id=self._lease() or LeaseId(1))
            case _:
                limit = random.choice([None, 1, 3])
                return commands.Watch(keys=self._keys(), from_revision=self._revision(), limit=limit)

    def _operation(self) -> commands.Operation:
        random = self._random
        match random.choice("pppppddiiigr"):
            case "p":
                return commands.Put(key=self._key(), value=self._value(), lease_id=self._lease())
            case "d":
                return commands.Delete(keys=self._keys())
            case "i":
                return commands.Increment(key=self._key(), delta=random.choice([1, -3, 2**62, 2**63 - 1, -(2**63)]))
            case "g":
                return commands.Get(key=self._key(), revision=self._past())
            case _:
                return commands.Range(keys=self._keys(), limit=random.choice([None, 1, 3]), revision=self._past())

    def _comparison(self) -> commands.Comparison:
        random = self._random
        operator = random.choice(tuple(Operator))
        if random.randrange(2):
            return commands.CompareValue(key=self._key(), operator=operator, value=self._value())
        field = random.choice(tuple(NumberField))
        number = random.randrange(4) if field is NumberField.VERSION else random.choice([0, self._revision()])
        return commands.CompareNumber(key=self._key(), field=field, operator=operator, number=number)

    def _key(self) -> bytes:
        return self._random.choice(KEYS)

    def _value(self) -> bytes:
        return self._random.choice(VALUES)

    def _keys(self) -> KeyRange:
        match self._random.randrange(4):
            case 0:
                return prefix(self._random.choice([b"", b"a", b"b\xff", b"\xff"]))
            case 1:
                return KeyRange(start=self._key(), end=self._key())
            case _:
                return single(self._key())

    def _lease(self) -> LeaseId | None:
        """Mostly one that may be there, now and then one that never was."""
        if self._random.randrange(2):
            return None
        return LeaseId(self._random.randint(max(1, self.leases - 3), self.leases + 1))

    def _revision(self) -> int:
        """Mostly a late one; some are in the future."""
        return max(1, self.revision + 2 - self._random.randrange(15))

    def _past(self) -> int | None:
        return self._revision() if self._random.randrange(2) else None
