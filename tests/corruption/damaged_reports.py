"""Damage to what is told of the replicas: by the history of its dumps, and by the events of the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.corruption.base import END, LOGS
from tests.corruption.damages import (
    ALL_DUMPS,
    DOUBTFUL,
    DUMPED,
    HARMLESS,
    MISSING,
    NO_ISR,
    Change,
    Damage,
    alter,
    alter_one,
    double,
    drop,
    drop_one,
    numbered_again,
    told,
    where,
)

ONE_DUMP = partial(alter_one, table="history", chosen=DUMPED)
DUMPS = (
    Damage(
        "the history tells of no dump",
        numbered_again(partial(drop, table="history", chosen=where(f="dump"))),
        MISSING,
        "the history does not say that the log of replica 1 was read",
    ),
    Damage(
        "the history does not tell what was dumped of a replica",
        partial(ONE_DUMP, detail=None),
        MISSING,
        "the history does not say that the log of replica 2 was read",
    ),
    Damage(
        "what the history tells of a dump cannot be read",
        partial(ONE_DUMP, detail='{"replicas"'),
        MISSING,
        "does not say that the log of replica 2",
    ),
    Damage(
        "what the history tells of a dump is something else",
        partial(ONE_DUMP, detail="[1]"),
        MISSING,
        "does not say that the log of replica 2",
    ),
    Damage(
        "a dump was of another replica",
        partial(ONE_DUMP, detail=told(lambda detail: detail.update(replicas=[7]))),
        MISSING,
        "the log of replica 7 was dumped, and no row",
    ),
    Damage(
        "a dump was of nobody",
        partial(ONE_DUMP, detail=told(lambda detail: detail.update(replicas=[]))),
        MISSING,
        "does not say that the log of replica 2",
    ),
    Damage(
        "a dump has no count",
        partial(ONE_DUMP, detail=told(lambda detail: detail["logs"][LOGS[0]].pop("batches"))),
        MISSING,
        "does not say that the log of replica 2",
    ),
    Damage(
        "more was dumped",
        partial(ONE_DUMP, detail=told(lambda detail: detail["logs"][LOGS[0]].update(batches=END + 1))),
        MISSING,
        "14 batches of replica 2 were read, and 13 are stored",
    ),
    Damage(
        "less was dumped",
        partial(ALL_DUMPS, detail=told(lambda detail: detail["logs"][LOGS[0]].update(batches=END - 1))),
        MISSING,
        "12 batches of replica 1 were read, and 13 are stored",
    ),
    Damage(
        "a log of another name was dumped",
        partial(ALL_DUMPS, detail=told(lambda detail: detail["logs"].update(more={"batches": 1}))),
        MISSING,
        "more: the log of replica 1 was dumped, and no row",
    ),
    Damage("the harness could not dump", partial(ONE_DUMP, type="fail"), MISSING, "a log could not be read"),
    Damage(
        "the replicas did not agree",
        partial(alter, table="history", chosen=where(f="converge", type="info"), type="fail"),
        MISSING,
        "did not agree",
    ),
)


ISR = where(event="final-isr", topic_partition=LOGS[0])
CLAIMED = partial(alter, table="events", chosen=ISR)


def claiming(**changed: Any) -> Change:
    """What is said in the end of the first log is another."""
    return partial(CLAIMED, detail=told(lambda detail: detail.update(changed)))


NO_CLAIM = "the final ISR is not known"
EVENT_ROWS = (
    Damage("all events are gone", lambda run: run.events.clear(), MISSING, NO_CLAIM),
    Damage(
        "all events are gone, by the mark",
        lambda run: run.events.clear(),
        MISSING,
        "events/ has 0 rows",
        counted_again=False,
    ),
    Damage(
        "one replica's events are gone",
        partial(drop, table="events", chosen=where(replica_id=3)),
        MISSING,
        "events/ has",
        counted_again=False,
    ),
    Damage(
        "a leader's start is gone",
        partial(drop_one, table="events", chosen=where(event="became-leader")),
        MISSING,
        "events/ has",
        counted_again=False,
    ),
    Damage(
        "the high watermarks that were told are gone",
        partial(drop, table="events", chosen=where(event="high-watermark")),
        MISSING,
        "events/ has",
        counted_again=False,
    ),
    Damage(
        "one event is there twice, by the mark",
        partial(double, table="events", chosen=where(event="started")),
        MISSING,
        "events/ has",
        counted_again=False,
    ),
    Damage(
        "one replica told nothing",
        partial(drop, table="events", chosen=where(replica_id=3)),
        MISSING,
        "1 replicas",
    ),
    Damage("nobody tells of any ISR", NO_ISR, MISSING, NO_CLAIM),
    Damage("nobody tells of one log's ISR", partial(drop, table="events", chosen=ISR), MISSING, NO_CLAIM),
    Damage("the ISR is told of another log", partial(CLAIMED, topic_partition="orders-7"), MISSING, NO_CLAIM),
    Damage("the ISR has no detail", partial(CLAIMED, detail=None), MISSING, NO_CLAIM),
    Damage("the ISR's detail cannot be read", partial(CLAIMED, detail='{"isr": [1'), MISSING, NO_CLAIM),
    Damage("the ISR is no list", claiming(isr=3), MISSING, NO_CLAIM),
    Damage("nobody tells who has the log", claiming(replicas=None), MISSING, NO_CLAIM),
    Damage("the ISR is smaller", claiming(isr=[1, 2]), MISSING, "isr-not-restored: 1 (undecided)"),
    Damage("the ISR was not restored", claiming(restored=False), MISSING, "isr-not-restored: 1 (undecided)"),
    Damage(
        "nobody tells whether the ISR was restored", claiming(restored=None), MISSING, "isr-not-restored: 1 (undecided)"
    ),
    Damage(
        "one more replica was in sync",
        claiming(isr=[1, 2, 3, 4], replicas=[1, 2, 3, 4]),
        MISSING,
        "replica 4 is in the final ISR, and its log was not read",
    ),
    Damage("one more replica has the log", claiming(replicas=[1, 2, 3, 4]), MISSING, "isr-not-restored: 1 (undecided)"),
    Damage("the ISR is told twice", partial(double, table="events", chosen=ISR), DOUBTFUL),
    Damage("the leader's high watermark was not told", partial(CLAIMED, offset=None), DOUBTFUL),
    Damage("the events are in another order", lambda run: run.events.reverse(), HARMLESS),
)
