"""The decoders of what people write: addresses, voters, groups, settings of topics, options of readers, transactions,
sweeps, scenarios, schedules and queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from nemesis.cli.soak.document import SweepError, read_sweep
from nemesis.schedules.schedule import AwaitLeader, Heal, Inject, Name, Schedule, schedule_from_json
from nemesis.serve.guard import Guard
from nemesis.serve.sql import QUERY_CHARACTERS_MAX
from nemesis.simulator.scenario_files import ScenarioError, parse_scenario
from nemesis.simulator.schedule_lines import line_of, step_of
from replica.cli.kv_txn import TransactionSyntaxError, parse_sections
from replica.core.config import InvalidConfigError
from replica.core.metadata.configs import canonical_configs
from replica.rpc.addresses import InvalidAddressError, check_address, parse_entries, parse_voters
from replica.server.groups import check_groups, parse_groups
from replica.spark.errors import OptionError
from replica.spark.options import batch_read_options, stream_read_options, write_options
from tests.fuzz.decoder import Decoder, SaidNoError, of_bytes, of_file, of_text, there

SIGNS = (b"=", b":", b",", b".", b"-", b"1", b"0", b"[", b"]", b" ")
ADDRESSES = (b"127.0.0.1:9092", b"[::1]:9092", b"host-1.example:1")
DISK = b"AAAAAAAAAAAAAAAAAAAAAQ"


def _words(function: Callable[[Sequence[str]], object]) -> Callable[[bytes, Path], object]:
    """A decoder of the words of a command line, one a line of the input."""
    return of_text(lambda text: function(text.split("\n")))


def _groups(entries: Sequence[str]) -> None:
    check_groups(parse_groups(entries))


def _settings(lines: Sequence[str]) -> None:
    """Settings of a topic; what they are written down as says the same."""
    settings = dict(line.partition("=")[::2] for line in lines)
    kept = canonical_configs(settings)
    assert canonical_configs(kept) == kept, "what is kept is not what it is read as"


def _options(lines: Sequence[str]) -> None:
    """Options of Spark's reader and writer: the first line says whose."""
    readers: Sequence[Callable[[dict[str, str]], object]] = (batch_read_options, stream_read_options, write_options)
    readers[len(lines[0]) % 3](dict(line.partition("=")[::2] for line in lines[1:]))


def _step(text: str) -> None:
    step = step_of(text)
    assert step_of(line_of(step)) == step, "what is written is not what was read"


def _schedule(text: str) -> None:
    schedule = schedule_from_json(text)
    assert schedule_from_json(schedule.to_json()) == schedule, "what is written is not what was read"


STEPS = (
    b"1.5 inject 0 kill leader draw=123",
    b"2.7 heal 0",
    b"3 name first leader",
    b"4 await-leader @first at_most_s=2.5",
    b"0 inject 7 pause followers",
)


def _schedules() -> Sequence[bytes]:
    """A schedule with one step of each kind."""
    steps = tuple(step_of(line.decode()) for line in sorted(STEPS[:4], key=lambda line: float(line.split()[0])))
    assert {type(step.action) for step in steps} == {Inject, Heal, Name, AwaitLeader}
    whole = Schedule(name="fuzzed", time_limit_s=9.0, steps=steps)
    return [whole.to_json().encode(), Schedule(name="empty", time_limit_s=1, steps=()).to_json().encode()]


SCENARIO = b"""# Prose.
#
# And more.
command word word key=value
further input
----
output

other
----
----
output

and more of it
----
----
"""
SWEEP = b"""name = "small"

[options]
workload = "append"
time_limit = 10
faults = ["partition", "kill"]
idempotence = true

[matrix]
acks = ["all", "1"]
nodes = [3, 5]
seeds = "1-10,17"
"""


QUERIES = (
    b"SELECT f, type, count(*) AS events FROM history GROUP BY ALL ORDER BY ALL",
    b"WITH a AS (SELECT * FROM events) SELECT a.event FROM a JOIN logs USING (replica_id)",
    b"EXPLAIN SELECT 1",
)
_SQL = "COPY TO ATTACH INSTALL LOAD SET PRAGMA CREATE INSERT UPDATE DELETE DROP EXPORT CALL SELECT FROM ; -- /* ( )"
QUERY_WORDS = tuple(f" {word} ".encode() for word in _SQL.split())


def _query(text: str) -> None:
    """Only one statement passes, and it is one that reads; nothing is run. Raises RefusedError and duckdb's errors."""
    import duckdb

    from nemesis.serve.sql_process import only_select

    statement = only_select(_database(), text)
    assert statement.type in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN), statement.type


@cache
def _database() -> Any:
    from nemesis.history.schemas import Kind
    from nemesis.serve.sql_process import _database as database

    return database({kind.value: [] for kind in Kind})


def _refused_queries() -> tuple[type[Exception], ...]:
    import duckdb

    from nemesis.serve.sql_process import RefusedError

    return RefusedError, duckdb.Error


def _host(text: str) -> object:
    return there(Guard(_nobody, names=("highwater.example",)).allows(text) or None)


async def _nobody(*_: object) -> None:
    """An application that is never asked."""


DECODERS = (
    Decoder(
        name="addresses",
        decode=_words(parse_entries),
        right=lambda: [b"\n".join(b"%d=%s" % entry for entry in enumerate(ADDRESSES)), b"1=" + ADDRESSES[0]],
        refusals=(InvalidAddressError,),
        words=SIGNS,
    ),
    Decoder(
        name="voters",
        decode=_words(parse_voters),
        right=lambda: [b"1=%s=%s" % (address, DISK) for address in ADDRESSES],
        refusals=(InvalidAddressError,),
        words=(*SIGNS, DISK),
    ),
    Decoder(
        name="address",
        decode=of_text(check_address),
        right=lambda: list(ADDRESSES),
        refusals=(InvalidAddressError,),
        words=SIGNS,
    ),
    Decoder(
        name="groups",
        decode=_words(_groups),
        right=lambda: [b"accounts=key-value", b"a=lock\nb=counter"],
        refusals=(InvalidConfigError,),
        words=SIGNS,
    ),
    Decoder(
        name="topic-settings",
        decode=_words(_settings),
        right=lambda: [
            b"min.insync.replicas=2\nretention.ms=-1\nmessage.timestamp.type=LogAppendTime",
            b"unclean.leader.election.enable=True\nmax.message.bytes=+100\nretention.bytes= 7 ",
        ],
        refusals=(InvalidConfigError,),
        words=(*SIGNS, b"retention.ms=", b"true"),
    ),
    Decoder(
        name="spark-options",
        decode=_words(_options),
        right=lambda: [
            b'---\nbootstrap.servers=a:1,b:2\nsubscribe=x,y\nstartingOffsets={"x": {"0": 23, "1": -2}}',
            b'-\nbootstrap.servers=a:1\nassign={"x": [0, 1]}\nmaxOffsetsPerTrigger=9\nfailOnDataLoss=false',
            b"--\nbootstrap.servers=a:1\ntopic=x\ncompression.type=zstd\nlinger.ms=0\nbatch=3",
        ],
        refusals=(OptionError,),
        words=(*SIGNS, b'{"', b"}", b"earliest", b"startingOffsets="),
    ),
    Decoder(
        name="transactions",
        decode=_words(parse_sections),
        right=lambda: [
            b'value("color") = "red"\nmod_revision("size") < 7\n\nput color "light blue"\nincrement a 2\n\nget color',
            b"version(a) > 1\n\ndelete a --prefix\nput a b --lease 7\n\nrange a f",
        ],
        refusals=(TransactionSyntaxError,),
        words=(b'"', b"'", b"(", b")", b" = ", b"put ", b"--lease ", b"--prefix", b"increment a "),
    ),
    Decoder(
        name="sweeps",
        decode=of_file("sweep.toml", read_sweep),
        right=lambda: [SWEEP],
        refusals=(SweepError,),
        words=(b"[", b"]", b"=", b'"', b"'", b"{", b"}", b'"""', b"[matrix]", b"seeds = ", b"2020-01-01", b"nan", b"#"),
        memory_per_byte=2_000,
        memory_bytes=4 << 20,
        cost=20,
    ),
    Decoder(
        name="scenarios",
        decode=of_text(parse_scenario),
        right=lambda: [SCENARIO],
        refusals=(ScenarioError,),
        words=(b"----\n", b"# ", b"\n\n", b"a=b"),
    ),
    Decoder(
        name="schedule-lines",
        decode=of_text(_step),
        right=lambda: list(STEPS),
        refusals=(ValueError,),
        words=(b" ", b"=", b"inject", b"@a", b"leader", b"inf", b"nan", b"1e5"),
    ),
    Decoder(
        name="schedules",
        decode=of_text(_schedule),
        right=_schedules,
        refusals=(ValueError,),
        words=(b'"', b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b'"kill"', b'"leader"', b'"draw": '),
        memory_per_byte=400,
    ),
    Decoder(
        name="queries",
        decode=of_bytes(lambda content: _query(content.decode("utf-8", "replace")[:QUERY_CHARACTERS_MAX])),
        right=lambda: list(QUERIES),
        refusals=_refused_queries(),
        words=QUERY_WORDS,
        may_kill=True,
        cost=5,
    ),
    Decoder(
        name="hosts",
        decode=of_text(_host),
        right=lambda: [b"localhost:80", b"127.0.0.1", b"[::1]:9", b"highwater.example:443"],
        refusals=(SaidNoError,),
        words=(*SIGNS, b"@", b"%", b"/"),
    ),
)
