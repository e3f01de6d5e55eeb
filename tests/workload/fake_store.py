"""A store that is a dictionary with revisions, linearizable as long as nothing overrides it; and wrong ones.

Each operation takes effect at one moment between its call and its answer, with a few turns of the event loop before and
after it, so that operations of several processes overlap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

from nemesis.cluster.store import Answer, Found
from nemesis.errors import NotDoneError, UnknownOutcomeError

TURNS_MAX = 4
Keys = dict[str, Found]


class FakeStore:
    """All keys at all revisions. So many of the calls are refused, and of so many nobody tells what became of them."""

    def __init__(self, random: Random, *, refused: float = 0.0, unknown: float = 0.0) -> None:
        self.random = random
        self.refused = refused
        self.unknown = unknown
        self.past: list[Keys] = [{}]
        self.ends_s: dict[str, float] = {}
        self.clients = 0

    def client(self) -> FakeStoreClient:
        self.clients += 1
        return FakeStoreClient(self)

    @property
    def revision(self) -> int:
        return len(self.past) - 1

    def now(self) -> Keys:
        """The keys as they are; those whose time is up go first."""
        time_s = asyncio.get_running_loop().time()
        over = [key for key, end_s in self.ends_s.items() if end_s <= time_s and key in self.past[-1]]
        if over:
            self.past.append({key: found for key, found in self.past[-1].items() if key not in over})
        return self.past[-1]

    def set(self, values: Mapping[str, int | None]) -> int:
        """Write keys, None: delete; returns the revision."""
        revision = self.revision + 1
        keys = dict(self.now())
        revision = self.revision + 1
        for key, value in values.items():
            keys.pop(key, None)
            self.ends_s.pop(key, None)
            if value is not None:
                keys[key] = Found(value=value, changed_at=revision)
        self.past.append(keys)
        return revision

    def lend(self, key: str, ttl_ms: int) -> None:
        self.ends_s[key] = asyncio.get_running_loop().time() + ttl_ms / 1000

    # --- what wrong stores override -----------------------------------------------------------------------------------

    def seen(self) -> tuple[int, Keys]:
        """What a read sees, and at which revision."""
        keys = self.now()
        return self.revision, keys

    def put(self, key: str, value: int) -> int:
        return self.set({key: value})

    def holds(self, key: str, expected: int | None) -> bool:
        found = self.now().get(key)
        return (None if found is None else found.value) == expected

    def add(self, key: str, amount: int) -> Found:
        found = self.now().get(key)
        self.set({key: (0 if found is None else found.value) + amount})
        return self.past[-1][key]

    def put_all(self, values: Mapping[str, int]) -> int:
        return self.set(values)

    def told_revision(self, revision: int) -> int:
        return revision


class StaleReads(FakeStore):
    """Some reads see what was there some revisions ago."""

    def seen(self) -> tuple[int, Keys]:
        revision = self.revision - (self.random.randrange(20) if self.random.random() < 0.3 else 0)
        return max(0, revision), self.past[max(0, revision)]


LOST = 0.2
"""How many: of a write that another one follows nobody can tell that it was lost."""


class LostUpdates(FakeStore):
    """Some writes and additions are acknowledged and not done."""

    def put(self, key: str, value: int) -> int:
        return self.revision if self.random.random() < LOST else super().put(key, value)

    def add(self, key: str, amount: int) -> Found:
        if self.random.random() < LOST:
            return self.now().get(key, Found(value=0, changed_at=0))
        return super().add(key, amount)

    def put_all(self, values: Mapping[str, int]) -> int:
        return self.revision if self.random.random() < LOST else super().put_all(values)


class DoneTwice(FakeStore):
    """Some commands are done once more, some turns later: a repeated message that nobody has recognised."""

    def put(self, key: str, value: int) -> int:
        self._again(lambda: super(DoneTwice, self).put(key, value))
        return super().put(key, value)

    def add(self, key: str, amount: int) -> Found:
        self._again(lambda: super(DoneTwice, self).add(key, amount))
        return super().add(key, amount)

    def put_all(self, values: Mapping[str, int]) -> int:
        self._again(lambda: super(DoneTwice, self).put_all(values))
        return super().put_all(values)

    def _again(self, do: Callable[[], object]) -> None:
        if self.random.random() < 0.1:
            asyncio.get_running_loop().call_later(0.02, do)


class NothingCompared(FakeStore):
    """Some conditions hold that do not."""

    def holds(self, key: str, expected: int | None) -> bool:
        return super().holds(key, expected) or self.random.random() < 0.2


class TornTransactions(FakeStore):
    """Of some transactions only the first write is done."""

    def put_all(self, values: Mapping[str, int]) -> int:
        first = dict(list(values.items())[: 1 if self.random.random() < 0.1 else None])
        return super().put_all(first)


class ShortLeases(FakeStore):
    """Leases end when somebody looks."""

    def lend(self, key: str, ttl_ms: int) -> None:
        super().lend(key, 0)


class WrongRevisions(FakeStore):
    """Everything is right but the revisions that are told."""

    def told_revision(self, revision: int) -> int:
        return max(0, revision - self.random.randrange(3))


class FakeStoreClient:
    """One process's client."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.is_closed = False

    async def get(self, key: str) -> Answer:
        return await self._call(lambda: self._read(lambda found: found == key), changes=False)

    async def get_all(self, prefix: str) -> Answer:
        return await self._call(lambda: self._read(lambda found: found.startswith(prefix)), changes=False)

    async def put(self, key: str, value: int) -> Answer:
        return await self._call(lambda: Answer(revision=self._store.put(key, value)))

    async def compare_and_set(self, key: str, expected: int | None, value: int, *, ttl_ms: int | None = None) -> Answer:
        def do() -> Answer:
            if not self._store.holds(key, expected):
                return self._now(lambda found: found == key, done=False)
            self._store.set({key: value})
            if ttl_ms is not None:
                self._store.lend(key, ttl_ms)
            return self._now(lambda found: found == key)

        return await self._call(do)

    async def delete_if(self, key: str, expected: int) -> Answer:
        def do() -> Answer:
            if not self._store.holds(key, expected):
                return self._now(lambda found: found == key, done=False)
            return Answer(revision=self._store.set({key: None}))

        return await self._call(do)

    async def increment(self, key: str, amount: int) -> Answer:
        def do() -> Answer:
            found = self._store.add(key, amount)
            return Answer(revision=self._store.revision, found={key: found})

        return await self._call(do)

    async def put_all_if(self, prefix: str, unchanged_since: Mapping[str, int], values: Mapping[str, int]) -> Answer:
        def do() -> Answer:
            keys = self._store.now()
            changed = {key: keys[key].changed_at if key in keys else 0 for key in unchanged_since}
            if changed != unchanged_since and self._store.random.random() < self._compared:
                return self._now(lambda found: found.startswith(prefix), done=False)
            return Answer(revision=self._store.put_all(values))

        return await self._call(do)

    async def close(self) -> None:
        self.is_closed = True

    @property
    def _compared(self) -> float:
        """How often transactions compare."""
        return 0.8 if isinstance(self._store, NothingCompared) else 1.0

    def _read(self, chosen: Callable[[str], bool]) -> Answer:
        revision, keys = self._store.seen()
        return Answer(revision=revision, found={key: found for key, found in keys.items() if chosen(key)})

    def _now(self, chosen: Callable[[str], bool], *, done: bool = True) -> Answer:
        found = {key: found for key, found in self._store.now().items() if chosen(key)}
        return Answer(revision=self._store.revision, done=done, found=found)

    async def _call(self, do: Callable[[], Answer], *, changes: bool = True) -> Answer:
        dice = self._store.random.random()
        await self._turns()
        if dice < self._store.refused:
            raise NotDoneError("refused")
        if dice < self._store.refused + self._store.unknown:
            if not changes:
                raise NotDoneError("no answer")
            self._later(do)
            raise UnknownOutcomeError("no answer")
        answer = do()
        await self._turns()
        assert answer.revision is not None, answer
        return Answer(revision=self._store.told_revision(answer.revision), done=answer.done, found=answer.found)

    def _later(self, do: Callable[[], Answer]) -> None:
        """What nobody tells of is done at once, later, or never."""
        dice = self._store.random.random()
        if dice < 1 / 3:
            do()
        elif dice < 2 / 3:
            asyncio.get_running_loop().call_later(0.03, do)

    async def _turns(self) -> None:
        for _ in range(self._store.random.randrange(TURNS_MAX)):
            await asyncio.sleep(0)
