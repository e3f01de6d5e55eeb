"""Damage to the replicas' final logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from nemesis.history import METADATA_LOG
from tests.corruption.base import CONTROL, END, LOGS, REPLICAS, TEST, Recording
from tests.corruption.damages import (
    A_LIE,
    ALL_DUMPS,
    DOUBTFUL,
    HARMLESS,
    MISSING,
    NO_ISR,
    Change,
    Damage,
    Where,
    alter,
    double,
    drop,
    numbered_again,
    several,
    told,
    where,
)


def log_of(*replicas: int, log: str | None = LOGS[0]) -> Where:
    """The batches of these replicas, of one log or of all."""
    return lambda row: row["replica_id"] in replicas and log in (None, row["topic_partition"])


def batch_of(replica_id: int, offset: int) -> Where:
    """One batch of the first log."""
    return lambda row: log_of(replica_id)(row) and row["base_offset"] == offset


def cut_short(run: Recording, *replicas: int) -> None:
    """The last batches of the first log are gone, and the others tell of an end before them."""
    own = log_of(*replicas)
    drop(run, "logs", lambda row: own(row) and row["base_offset"] >= 10)
    alter(run, "logs", own, log_end_offset=10, high_watermark=10)


def only_one_is_shown(run: Recording) -> None:
    """One log is left, without its end, and neither its history's end nor an ISR."""
    drop(run, "logs", lambda row: row["topic_partition"] != LOGS[0] or row["replica_id"] != 1)
    cut_short(run, 1)
    drop(run, "history", where(f="final-read"))
    drop(run, "events", where(event="final-isr"))


NO_DUMPS = numbered_again(partial(drop, table="history", chosen=where(f="dump")))


def never_dumped(run: Recording, replicas: Sequence[int], log: str = METADATA_LOG) -> None:
    """Of these replicas' log there is no row, and no dump."""
    drop(run, "logs", log_of(*replicas, log=log))
    forgotten = told(lambda detail: detail["logs"].pop(log) if detail["replicas"][0] in replicas else None)
    ALL_DUMPS(run, detail=forgotten)


def nothing_of_a_log(run: Recording) -> None:
    """One log is in no table, and in no dump."""
    never_dumped(run, REPLICAS, LOGS[1])
    for table in ("history", "events"):
        drop(run, table, where(topic_partition=LOGS[1]))


def beginning_deleted(run: Recording, replicas: Sequence[int], is_trimmed: bool = True) -> None:
    """Retention has deleted the beginning of the first log at these replicas, and the final reads begin behind it."""
    run.test = json.dumps(json.loads(run.test or TEST) | {"trimmed": LOGS if is_trimmed else []})
    drop(run, "history", where(f="final-read", topic_partition=LOGS[0], offset=0))
    drop(run, "logs", lambda row: log_of(*replicas)(row) and row["base_offset"] < CONTROL)
    alter(run, "logs", log_of(*replicas), log_start_offset=CONTROL)
    fewer = told(
        lambda detail: (
            detail["logs"][LOGS[0]].update(batches=END - CONTROL) if detail["replicas"][0] in replicas else None
        )
    )
    ALL_DUMPS(run, detail=fewer)


def other_checksums(run: Recording) -> None:
    """The last seven batches of replica 3 are others."""
    alter(run, "logs", lambda row: log_of(3)(row) and row["base_offset"] >= END - 7, crc=1)


CUTS: Mapping[str, Change] = {
    "one log is": lambda run: cut_short(run, 3),
    "each log is": lambda run: cut_short(run, *REPLICAS),
}
NO_HIGH_WATERMARKS = partial(alter, table="logs", chosen=where(), high_watermark=None)
LOW_HIGH_WATERMARKS = partial(alter, table="logs", chosen=where(), high_watermark=1)
ALL = log_of(*REPLICAS, log=None)
GONE = partial(drop, table="logs")
ALTERED = partial(alter, table="logs")
LOG_ROWS = (
    Damage("all logs are gone", partial(GONE, chosen=ALL), MISSING, "no replica's log"),
    Damage(
        "one replica's logs are gone",
        partial(GONE, chosen=log_of(3, log=None)),
        MISSING,
        "orders-1: the log of replica 3 was read, and none of its rows",
    ),
    Damage(
        "two replicas' logs are gone",
        partial(GONE, chosen=log_of(1, 2, log=None)),
        MISSING,
        "the log of replica 1 was read, and none of its rows",
    ),
    Damage(
        "one log of one replica is gone",
        partial(GONE, chosen=log_of(2)),
        MISSING,
        "orders-0: the log of replica 2 was read, and none of its rows",
    ),
    Damage(
        "one log of all replicas is gone",
        partial(GONE, chosen=log_of(*REPLICAS)),
        MISSING,
        "orders-0: the log of replica 1 was read, and none of its rows",
    ),
    Damage(
        "one log of all replicas was never dumped",
        several(
            partial(GONE, chosen=log_of(*REPLICAS)),
            partial(ALL_DUMPS, detail=told(lambda detail: detail["logs"].pop(LOGS[0]))),
        ),
        MISSING,
        "replica 1 is in the final ISR, and its log was not read",
    ),
    Damage(
        "one log of one replica was never dumped",
        several(
            partial(GONE, chosen=log_of(1)),
            partial(
                ALL_DUMPS,
                detail=told(lambda detail: detail["logs"].pop(LOGS[0]) if detail["replicas"] == [1] else None),
            ),
        ),
        MISSING,
        "replica 1 is in the final ISR, and its log was not read",
    ),
    *(
        Damage(
            f"the metadata log of {whose} was never dumped",
            partial(never_dumped, replicas=replicas),
            MISSING,
            f"{METADATA_LOG}: replica 3 has this log, which was not read in the end",
        )
        for whose, replicas in (("one replica", (3,)), ("all replicas", REPLICAS))
    ),
    Damage(
        "nobody tells anything of a log",
        numbered_again(nothing_of_a_log),
        MISSING,
        "orders-1: the run had this log, and no replica's copy was read in the end",
    ),
    Damage(
        "the metadata log of all replicas is gone",
        partial(GONE, chosen=log_of(*REPLICAS, log=METADATA_LOG)),
        MISSING,
        f"{METADATA_LOG}: the log of replica 1 was read",
    ),
    Damage(
        "the first batch of a log is gone",
        partial(GONE, chosen=batch_of(3, 0)),
        MISSING,
        "13 batches of replica 3 were read, and 12 are stored",
    ),
    Damage(
        "a batch in the middle of a log is gone",
        partial(GONE, chosen=batch_of(3, 5)),
        MISSING,
        "13 batches of replica 3 were read, and 12 are stored",
    ),
    Damage(
        "the last batch of a log is gone",
        partial(GONE, chosen=batch_of(3, END - 1)),
        MISSING,
        "13 batches of replica 3 were read, and 12 are stored",
    ),
    Damage(
        "the control batch is gone everywhere",
        partial(GONE, chosen=where(is_control=True)),
        MISSING,
        "13 batches of replica 1 were read, and 12 are stored",
    ),
    Damage(
        "a log is cut short with its ends",
        partial(lambda run: cut_short(run, 3)),
        MISSING,
        "13 batches of replica 3 were read, and 10 are stored",
    ),
    Damage(
        "all logs are cut short with their ends",
        lambda run: cut_short(run, *REPLICAS),
        MISSING,
        "13 batches of replica 1 were read, and 10 are stored",
    ),
    *(
        Damage(
            f"{whose} cut short with its ends, and no dump is told",
            several(change, NO_DUMPS),
            MISSING,
            "the history does not say that the log of replica 1 was read",
        )
        for whose, change in CUTS.items()
    ),
    Damage(
        "rows are cut from the one log that is shown",
        only_one_is_shown,
        MISSING,
        "13 batches of replica 1 were read, and 10 are stored",
    ),
    Damage(
        "a log of which nothing is left is told to be empty",
        several(
            partial(GONE, chosen=lambda row: log_of(3)(row) and row["base_offset"] > 0),
            partial(ALTERED, chosen=log_of(3), base_offset=None, last_offset=None, log_end_offset=0, values=None),
        ),
        MISSING,
        "13 batches of replica 3 were read, and 0 are stored",
    ),
    Damage(
        "a batch is gone, by the mark",
        partial(GONE, chosen=batch_of(3, 5)),
        MISSING,
        "logs/ has 116 rows",
        counted_again=False,
    ),
    Damage(
        "a dump was not complete",
        partial(ALTERED, chosen=log_of(2), complete=False),
        MISSING,
        "of 3 replicas' logs were read to their end",
    ),
    Damage(
        "no dump was complete",
        partial(ALTERED, chosen=ALL, complete=False),
        MISSING,
        "no replica's log was read to its end",
    ),
    Damage(
        "a log ends later than its rows",
        partial(ALTERED, chosen=log_of(2), log_end_offset=END + 3),
        MISSING,
        "diverged-log: 1 (undecided)",
    ),
    Damage(
        "the offsets of a log are shifted",
        partial(
            ALTERED,
            chosen=log_of(2),
            base_offset=lambda row: row["base_offset"] + 1,
            last_offset=lambda row: row["last_offset"] + 1,
        ),
        MISSING,
    ),
    Damage(
        "a log begins later, with its rows gone",
        several(
            partial(GONE, chosen=lambda row: log_of(2)(row) and row["base_offset"] < 4),
            partial(ALTERED, chosen=log_of(2), log_start_offset=4),
        ),
        MISSING,
        "13 batches of replica 2 were read, and 9 are stored",
    ),
    Damage(
        "retention has deleted the beginning of a log",
        numbered_again(partial(beginning_deleted, replicas=REPLICAS)),
        HARMLESS,
    ),
    Damage(
        "the beginning of a log is gone, from which nothing deletes",
        numbered_again(partial(beginning_deleted, replicas=REPLICAS, is_trimmed=False)),
        MISSING,
        "no final read covers 6 offsets",
    ),
    Damage(
        "one replica still has what was not finally read",
        numbered_again(partial(beginning_deleted, replicas=(1, 2))),
        MISSING,
        "no final read covers 6 offsets",
    ),
    Damage(
        "a log of an unknown replica is there",
        lambda run: run.logs.extend(row | {"replica_id": 9} for row in run.logs[:END]),
        MISSING,
        "the history does not say that the log of replica 9 was read",
    ),
    Damage(
        "a log is of another replica",
        partial(ALTERED, chosen=log_of(3), replica_id=9),
        MISSING,
        "the log of replica 3 was read, and none of its rows",
    ),
    Damage(
        "a log has another name",
        partial(ALTERED, chosen=log_of(*REPLICAS), topic_partition="orders-7"),
        MISSING,
        "orders-0: the log of replica 1 was read, and none of its rows",
    ),
    Damage(
        "two logs have changed their names",
        partial(
            ALTERED,
            chosen=log_of(1, 2, 3, log=None),
            topic_partition=lambda row: {LOGS[0]: LOGS[1], LOGS[1]: LOGS[0]}.get(row["topic_partition"], METADATA_LOG),
        ),
        A_LIE,
    ),
    Damage("a batch is there twice", partial(double, table="logs", chosen=batch_of(3, 5)), DOUBTFUL),
    Damage(
        "a batch is there a second time as another",
        partial(double, table="logs", chosen=batch_of(3, 5), crc=1),
        MISSING,
        "13 batches of replica 3 were read, and 14 are stored",
    ),
    Damage(
        "the values of a batch are gone",
        partial(ALTERED, chosen=batch_of(3, 5), values=None),
        MISSING,
        "lost-write: 1 (undecided)",
    ),
    Damage("the values of a batch are others", partial(ALTERED, chosen=batch_of(3, 5), values=[91]), A_LIE),
    Damage("a batch is of an earlier epoch", partial(ALTERED, chosen=batch_of(3, 8), leader_epoch=1), A_LIE),
    Damage("a batch is another at one replica", partial(ALTERED, chosen=batch_of(3, 5), crc=1), A_LIE),
    Damage("the last batches of a replica are others", other_checksums, A_LIE),
    Damage("... and no dump tells a high watermark", several(other_checksums, NO_HIGH_WATERMARKS), A_LIE),
    Damage(
        "... and no dump tells a high watermark, nor anybody the ISR",
        several(other_checksums, NO_HIGH_WATERMARKS, NO_ISR),
        MISSING,
        "orders-0, orders-1: no replica's high watermark is known",
    ),
    Damage("... and all dumps tell a low high watermark", several(other_checksums, LOW_HIGH_WATERMARKS), A_LIE),
    Damage(
        "no dump tells a high watermark",
        NO_HIGH_WATERMARKS,
        MISSING,
        f"{METADATA_LOG}: no replica's high watermark is known",
    ),
    Damage(
        "no dump of the clients' logs tells a high watermark",
        partial(ALTERED, chosen=lambda row: row["topic_partition"] in LOGS, high_watermark=None),
        DOUBTFUL,
    ),
    Damage("one dump tells no high watermark", partial(ALTERED, chosen=log_of(3), high_watermark=None), DOUBTFUL),
    Damage("the batches are in another order", lambda run: run.logs.reverse(), HARMLESS),
)
