"""Damage to the history: lines, their order, acknowledgements and final reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from nemesis.history import METADATA_LOG
from tests.corruption.base import LOGS, Recording, read
from tests.corruption.damages import (
    A_LIE,
    DOUBTFUL,
    HARMLESS,
    MISSING,
    Damage,
    _middle,
    alter,
    alter_one,
    double,
    drop,
    drop_one,
    numbered_again,
    several,
    where,
)

ON_FIRST, FINAL_OK = where(topic_partition=LOGS[0]), where(f="final-read", type="ok", topic_partition=LOGS[0])
APPEND_OK, POLL_OK = where(f="append", type="ok"), where(f="poll", type="ok")
LINES = [
    *(("append", type) for type in ("invoke", "ok", "fail", "info")),
    *(("poll", type) for type in ("invoke", "ok", "fail")),
    *(("final-read", type) for type in ("invoke", "ok")),
    *((f, type) for f in ("kill", "converge", "dump") for type in ("invoke", "info")),
]


def of_lines() -> Iterator[Damage]:
    """One line of each kind is gone, or there twice, or its operation is gone as a whole."""
    for f, type in LINES:
        chosen = where(f=f, type=type)
        name = f"the {type} of a {f}"
        gone, twice = partial(drop_one, table="history", chosen=chosen), partial(double, table="history", chosen=chosen)
        yield Damage(f"{name} is gone", gone, MISSING, "lines are missing")
        yield Damage(f"{name} is there twice", twice, MISSING, "index that is none or another")
    for f, type in (("append", "ok"), ("append", "fail"), ("append", "info"), ("poll", "ok"), ("final-read", "ok")):
        change = partial(drop_operation, f=f, type=type)
        yield Damage(f"a {f} that ended {type} is gone", change, MISSING, "lines are missing")
    for f in ("append", "poll", "final-read"):
        for type in ("invoke", "ok"):
            change = partial(alter_one, table="history", chosen=where(f=f, type=type), process=77)
            name = f"the {type} of a {f} is of another process"
            yield Damage(name, change, MISSING, "have no invocation")


def drop_operation(run: Recording, f: str, type: str) -> None:
    """Take both lines of an operation away."""
    end = run.history.index(_middle(run.history, where(f=f, type=type)))
    begin = max(place for place in range(end) if run.history[place]["process"] == run.history[end]["process"])
    run.history[:] = [row for place, row in enumerate(run.history) if place not in (begin, end)]


def mend_wrongly(run: Recording, f: str) -> None:
    """Take an end and the begin that follows it away, so that another end follows the first begin."""
    own = [
        row
        for row in run.history
        if row["f"] == f and row["topic_partition"] == LOGS[0] and row["process"] in (1, 3, 9)
    ]
    place = next(place for place, row in enumerate(own) if row["type"] == "ok")
    assert own[place + 1]["type"] == "invoke"
    run.history[:] = [row for row in run.history if row not in own[place : place + 2]]


def swap_begin_and_end(run: Recording) -> None:
    """An operation ends before it begins."""
    end = _middle(run.history, APPEND_OK)
    begin = run.history[run.history.index(end) - 1]
    begin["index"], end["index"] = end["index"], begin["index"]


def shift_from(run: Recording, place: int, by: int) -> None:
    """Indexes of the later lines are others."""
    for row in run.history[place:]:
        row["index"] += by


HISTORY = (
    Damage(
        "a stretch of the history is gone",
        lambda run: run.history.__delitem__(slice(20, 40)),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "the begin of the history is gone",
        lambda run: run.history.__delitem__(slice(0, 5)),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "the end of the history is gone",
        lambda run: run.history.__delitem__(slice(-6, None)),
        MISSING,
        "does not say that the log of replica",
    ),
    Damage(
        "the end of the history is gone, by its mark",
        lambda run: run.history.__delitem__(slice(-1, None)),
        MISSING,
        "history/ has",
        counted_again=False,
    ),
    Damage("the whole history is gone", lambda run: run.history.clear(), MISSING, "nothing was acknowledged"),
    Damage(
        "all clients' lines are gone",
        partial(drop, table="history", chosen=lambda row: row["process"] >= 0),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "all appends' invocations are gone",
        partial(drop, table="history", chosen=where(f="append", type="invoke")),
        MISSING,
        "have no invocation",
    ),
    Damage(
        "all that one process did is gone",
        partial(drop, table="history", chosen=where(process=1)),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "all operations on a log are gone",
        partial(drop, table="history", chosen=ON_FIRST),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "the end of a poll and the begin of the next are gone",
        partial(mend_wrongly, f="poll"),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "the end of an append and the begin of the next are gone",
        partial(mend_wrongly, f="append"),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "the end of a final read and the begin of the next are gone",
        partial(mend_wrongly, f="final-read"),
        MISSING,
        "lines are missing",
    ),
    Damage("the lines are in another order", lambda run: run.history.reverse(), HARMLESS),
    Damage("an index is left out", partial(shift_from, place=30, by=1), MISSING, "lines are missing"),
    Damage("the indexes begin at one", partial(shift_from, place=0, by=1), MISSING, "lines are missing"),
    Damage("an index is below zero", lambda run: run.history[0].update(index=-1), MISSING, "index that is none"),
    Damage("an index is another's", lambda run: run.history[30].update(index=29), MISSING, "another one's"),
    Damage("one index is twice there and one is not", partial(shift_from, place=30, by=-1), MISSING, "another one's"),
    Damage("an operation ends before it begins", swap_begin_and_end, MISSING, "have no invocation"),
    Damage(
        "a time goes back within an operation",
        partial(alter_one, table="history", chosen=APPEND_OK, time_ns=0),
        MISSING,
        "ended before they began",
    ),
    Damage("all times are the same", partial(alter, table="history", chosen=where(), time_ns=0), DOUBTFUL),
    Damage("an end is a begin", partial(alter_one, table="history", chosen=APPEND_OK, type="invoke"), MISSING),
    Damage(
        "a begin is an end",
        partial(alter_one, table="history", chosen=where(f="append", type="invoke"), type="ok"),
        MISSING,
        "have no invocation",
    ),
    Damage(
        "the log of an end is another",
        partial(alter_one, table="history", chosen=APPEND_OK, topic_partition="orders-7"),
        MISSING,
        "have no invocation",
    ),
    Damage(
        "the value of an end is another",
        partial(alter_one, table="history", chosen=APPEND_OK, value=1),
        MISSING,
        "have no invocation",
    ),
    Damage(
        "the position of an end is another",
        partial(alter_one, table="history", chosen=POLL_OK, offset=1000),
        MISSING,
        "have no invocation",
    ),
    Damage(
        "the values of all appends are gone",
        partial(alter, table="history", chosen=where(f="append"), value=None),
        A_LIE,
    ),
    Damage(
        "no acknowledgement tells its offset",
        partial(alter, table="history", chosen=APPEND_OK, offset=None),
        MISSING,
        "11 of 11 acknowledgements do not tell an offset",
    ),
    Damage(
        "an acknowledgement does not tell its offset",
        partial(alter_one, table="history", chosen=APPEND_OK, offset=None),
        MISSING,
        "1 of 11 acknowledgements",
    ),
    Damage(
        "an acknowledgement tells another offset",
        partial(alter_one, table="history", chosen=APPEND_OK, offset=50),
        A_LIE,
    ),
    Damage(
        "acknowledgements tell no epoch", partial(alter, table="history", chosen=APPEND_OK, leader_epoch=None), DOUBTFUL
    ),
    Damage(
        "polls tell no high watermark", partial(alter, table="history", chosen=POLL_OK, high_watermark=None), DOUBTFUL
    ),
    Damage("a poll tells no records", partial(alter_one, table="history", chosen=POLL_OK, records=None), A_LIE),
    Damage(
        "nobody acknowledged anything",
        partial(alter, table="history", chosen=APPEND_OK, type="info", offset=None),
        MISSING,
        "nothing was acknowledged",
    ),
)


FINAL_READS = (
    Damage(
        "all final reads are gone",
        partial(drop, table="history", chosen=where(f="final-read")),
        MISSING,
        "there is no final read",
    ),
    Damage(
        "all final reads were never done",
        numbered_again(partial(drop, table="history", chosen=where(f="final-read"))),
        MISSING,
        "there is no final read",
    ),
    Damage(
        "the final reads of one log were never done",
        numbered_again(partial(drop, table="history", chosen=lambda row: row["f"] == "final-read" and ON_FIRST(row))),
        MISSING,
        "orders-0: there is no final read",
    ),
    Damage(
        "the begin of a log was never finally read",
        numbered_again(
            partial(
                drop,
                table="history",
                chosen=lambda row: row["f"] == "final-read" and ON_FIRST(row) and row["offset"] == 0,
            )
        ),
        MISSING,
        "no final read covers 6 offsets",
    ),
    Damage(
        "the end of a log was never finally read",
        numbered_again(
            partial(
                drop,
                table="history",
                chosen=lambda row: row["f"] == "final-read" and ON_FIRST(row) and row["offset"] > 0,
            )
        ),
        MISSING,
        "orders-0: no final read saw the end of the log",
    ),
    Damage(
        "the final reads failed",
        partial(alter, table="history", chosen=FINAL_OK, type="fail", records=None),
        MISSING,
        "orders-0: no final read saw the end of the log",
    ),
    Damage(
        "the final reads stopped at their limit",
        partial(alter, table="history", chosen=FINAL_OK, limited=True),
        MISSING,
        "orders-0: no final read saw the end of the log",
    ),
    Damage("the final reads tell no records", partial(alter, table="history", chosen=FINAL_OK, records=None), MISSING),
    Damage(
        "a final read is cut in its middle",
        partial(alter_one, table="history", chosen=FINAL_OK, records=lambda row: row["records"][:3]),
        A_LIE,
    ),
    Damage(
        "a final read lacks a record",
        partial(
            alter_one, table="history", chosen=FINAL_OK, records=lambda row: row["records"][:2] + row["records"][3:]
        ),
        A_LIE,
    ),
    Damage("the final reads are empty", partial(alter, table="history", chosen=FINAL_OK, records=[]), A_LIE),
    Damage(
        "the final reads are polls",
        partial(alter, table="history", chosen=where(f="final-read"), f="poll"),
        MISSING,
        "there is no final read",
    ),
    Damage(
        "a second final read saw something else",
        lambda run: read(run, LOGS[0], 0, [0, 1], process=50, final=True),
        A_LIE,
    ),
    Damage(
        "a second final read saw another log's values",
        several(
            partial(read, log=LOGS[1], position=0, offsets=[0], process=50, final=True),
            partial(alter, table="history", chosen=where(process=50), topic_partition=LOGS[0]),
        ),
        A_LIE,
    ),
    Damage(
        "the final reads began before the appends",
        numbered_again(lambda run: run.history.sort(key=lambda row: row["f"] != "final-read")),
        A_LIE,
        "appends were acknowledged when the final read had begun",
    ),
)


def never_dumped(run: Recording) -> None:
    """One replica's logs are gone, and so is what tells that they were dumped."""
    drop(run, "logs", where(replica_id=1))
    drop(run, "history", lambda row: row["f"] == "dump" and json.loads(row["detail"])["replicas"] == [1])


WRITTEN = where(f="write", type="ok")
OF_OBJECTS = (
    Damage("a write is gone", partial(drop_operation, f="write", type="ok"), MISSING, "lines are missing"),
    Damage(
        "the begin of a write is gone",
        partial(drop_one, table="history", chosen=where(f="write", type="invoke")),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "the end of a write is gone", partial(drop_one, table="history", chosen=WRITTEN), MISSING, "lines are missing"
    ),
    Damage(
        "the end of a read is gone",
        partial(drop_one, table="history", chosen=where(f="read", type="ok")),
        MISSING,
        "lines are missing",
    ),
    Damage(
        "all writes are gone", partial(drop, table="history", chosen=where(f="write")), MISSING, "lines are missing"
    ),
    Damage("a write is there twice", partial(double, table="history", chosen=WRITTEN), MISSING, "another one's"),
    Damage(
        "the end of a write is another process's",
        partial(alter_one, table="history", chosen=WRITTEN, process=7),
        MISSING,
        "have no invocation",
    ),
    Damage(
        "the end of a write is of another object",
        partial(alter_one, table="history", chosen=WRITTEN, topic_partition="y"),
        MISSING,
        "have no invocation",
    ),
    Damage(
        "the log of a store is gone",
        partial(drop, table="logs", chosen=where(replica_id=1)),
        MISSING,
        "the log of replica 1 was dumped, and no row",
    ),
    Damage(
        "a replica of a store was never dumped",
        numbered_again(never_dumped),
        MISSING,
        f"{METADATA_LOG}: replica 1 has this log, which was not read in the end",
    ),
    Damage(
        "... and nobody tells who has which log",
        several(numbered_again(never_dumped), lambda run: setattr(run, "test", '{"workload": "register"}')),
        MISSING,
        "1 replicas were started, and no log of theirs is there",
    ),
    Damage("all events of a store are gone", lambda run: run.events.clear(), MISSING, "3 replicas have logs"),
    Damage("all logs of a store are gone", lambda run: run.logs.clear(), MISSING, "no replica's log"),
    Damage("the lines of objects are in another order", lambda run: run.history.reverse(), HARMLESS),
)
