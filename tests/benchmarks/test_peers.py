"""The comparison with peers, over systems that only pretend: all rows are taken, written and drawn, and not timed."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner

from benchmarks.peers.__main__ import draw, main, run
from benchmarks.peers.chart import chart_of
from benchmarks.peers.kafka import POM
from benchmarks.peers.rows import ROWS, Aim, Row, Turn, leader_killed
from benchmarks.peers.system import Ability, Answered, Durability, System, closed_loop
from benchmarks.peers.table import BEGIN, END, with_table
from benchmarks.peers.turns import SYSTEMS, Measured, Plan, measure, row_figures
from nemesis.systems.kafka.jars import LIBS_VARIABLE, jars_folder

PAGE = f"# Performance\n\nBefore.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n"


class Ours(System):
    """It is able to do everything, at once; after a kill the first try fails."""

    name = "Highwater"
    abilities = frozenset(Ability)
    durabilities: ClassVar[tuple[Durability, ...]] = (Durability.FSYNC, Durability.PAGE_CACHE)
    settings = MappingProxyType({"bulk": "<none>"})
    running = 0
    refuses = 0

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def version(cls) -> str:
        return "1"

    async def start(self) -> None:
        type(self).running += 1

    async def stop(self) -> None:
        type(self).running -= 1

    async def create(self, topic: str) -> None:
        pass

    async def produce(self, topic: str, value: bytes, count: int) -> None:
        pass

    produce_each = produce

    async def consume(self, topic: str, count: int) -> None:
        assert count > 0

    consume_arrow = consume

    async def write(self, topic: str, in_flight: int, seconds: float) -> Answered:
        return await self.get(in_flight, seconds)

    async def put(self, in_flight: int, seconds: float) -> Answered:
        return await self.get(in_flight, seconds)

    async def get(self, in_flight: int, seconds: float) -> Answered:
        return await closed_loop(lambda _: asyncio.sleep(0), in_flight, seconds)

    async def attempt(self, topic: str | None) -> None:
        if self.refuses:
            self.refuses -= 1
            raise ConnectionError("nobody leads")

    async def kill_leader(self, topic: str | None) -> float:
        self.refuses = 1
        return time.perf_counter()

    async def recover(self, topic: str | None) -> None:
        assert not self.refuses


class Theirs(Ours):
    """It has logs of records only, from the page cache, and cannot read them."""

    name = "Kafka"
    abilities = frozenset({Ability.RECORDS, Ability.RECORDS_FAIL_OVER})
    durabilities = (Durability.PAGE_CACHE,)

    async def consume(self, topic: str, count: int) -> None:
        raise OSError("no such thing | here")


class Absent(Ours):
    """It is not installed."""

    name = "etcd"

    @classmethod
    def missing(cls) -> str | None:
        return "etcd is not installed"


class NeverStarts(Ours):
    """Its nodes do not come up."""

    name = "never"

    async def start(self) -> None:
        await super().start()
        raise click.ClickException("not all nodes serve")


def plan(*systems: type[System]) -> Plan:
    """Two rounds of everything, as short as can be."""
    return Plan(systems=systems, rows=ROWS, rounds=2, warm_up=0.002, seconds=0.002, kills=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a whole run."""
    output = tmp_path_factory.mktemp("store") / "bench-peers.json"
    run(plan(Ours, Theirs), [Ours, Theirs, Absent], output)
    return output


def test_all_rows_are_written_with_all_figures_of_each_round(written: Path) -> None:
    """A system that is able to do everything has a figure of each round in each row, with its median and spread."""
    rows = json.loads(written.read_text(encoding="utf-8"))["rows"]

    assert [row["name"] for row in rows] == [row.name for row in ROWS]
    for row in rows:
        figures = row["figures"]["Highwater"]
        assert len(figures["all"]) == 2
        assert figures["lowest"] <= figures["median"] <= figures["highest"]


def test_what_a_system_is_not_able_to_do_is_left_blank_and_what_fails_is_told(written: Path) -> None:
    """No figure stands where there is none, and a failure has its reason."""
    found = json.loads(written.read_text(encoding="utf-8"))
    with_figures = {row["name"] for row in found["rows"] if "Kafka" in row["figures"]}

    assert with_figures == {"bulk", "outcome-each", "bulk-1k", "failover"}
    assert [(each["system"], each["what"]) for each in found["failures"]] == [("Kafka", "consume")] * 2


def test_where_the_figures_come_from_is_written(written: Path) -> None:
    """Machine, versions, durability and settings are there, and what is missing."""
    found = json.loads(written.read_text(encoding="utf-8"))

    assert {"cores", "memory_gb", "load"} <= found["machine"].keys()
    assert {"python", "system"} <= found["versions"].keys()
    assert {"processor", "event_loop", "load_before", "date"} <= found.keys()
    assert [system["missing"] for system in found["systems"]] == [None, None, "etcd is not installed"]
    assert found["systems"][0]["durabilities"] == ["fsync", "page cache"]


def test_each_system_is_stopped_before_the_next_is_started() -> None:
    """Each turn ends with nothing running, also where a start fails, which is told once for each turn."""
    measured = asyncio.run(measure(plan(Ours, NeverStarts), lambda _: None))

    assert (Ours.running, NeverStarts.running) == (0, 0)
    assert [each["what"] for each in measured.failures] == ["start or stop"] * 4


def test_the_page_gets_table_and_chart(written: Path, tmp_path: Path) -> None:
    """Only what stands between the markers is another, and drawing it again changes nothing."""
    page = tmp_path / "performance.md"
    page.write_text(PAGE, encoding="utf-8")
    draw(json.loads(written.read_text(encoding="utf-8")), page)
    text = page.read_text(encoding="utf-8")

    assert text.startswith("# Performance\n\nBefore.\n")
    assert text.endswith("\n\nAfter.\n")
    assert "old" not in text
    assert "| 100-byte records in bulk, acks=all, records/s | page cache |" in text
    assert "- **etcd** was not measured: etcd is not installed." in text
    assert "(performance.svg)" in text

    again = CliRunner().invoke(main, ["--read", str(written), "--table", str(page)])
    assert again.exit_code == 0, again.output
    assert page.read_text(encoding="utf-8") == text


def test_the_chart_has_a_panel_for_each_row(written: Path) -> None:
    """The picture is well-formed, with a bar for each figure and the white ground."""
    found = json.loads(written.read_text(encoding="utf-8"))
    picture = ElementTree.fromstring(chart_of(found))
    rectangles = picture.iter("{http://www.w3.org/2000/svg}rect")

    assert len(picture.findall("{http://www.w3.org/2000/svg}g")) == len(ROWS)
    assert len(list(rectangles)) == 1 + sum(len(row["figures"]) for row in found["rows"])


def test_a_page_without_markers_is_refused() -> None:
    """Nothing is written where it is not said where."""
    with pytest.raises(click.ClickException, match="bench-peers: begin"):
        with_table("# Performance\n", "table")


@pytest.mark.parametrize(
    ("aim", "ours", "theirs", "is_met"),
    [
        (Aim(), 1.0, 1.0, None),
        (Aim(figure=2), 2.0, 9.0, True),
        (Aim(figure=2), 1.9, 9.0, False),
        (Aim(ahead_of=("Kafka",)), 2.0, 2.0, True),
        (Aim(ahead_of=("Kafka",), times=3), 2.0, 1.0, False),
        (Aim(ahead_of=("nobody",)), 2.0, 1.0, None),
        (Aim(figure=2, ahead_of=("Kafka",)), 2.0, 3.0, False),
    ],
)
def test_an_aim_is_met_by_figures_and_by_peers(aim: Aim, ours: float, theirs: float, is_met: bool | None) -> None:
    """All of an aim must be met, as far as there is something to compare with."""
    row = Row(
        name="row",
        title="row",
        unit="records/s",
        more_is_better=True,
        ability=Ability.RECORDS,
        measure=ROWS[0].measure,
        aim=aim,
    )
    measured = Measured(figures={("row", "Highwater"): [ours], ("row", "Kafka"): [theirs]})

    assert row_figures(row, [Ours, Theirs], measured)["aim"]["is_met"] is is_met


def test_less_may_be_better() -> None:
    """Of a time the lower one is ahead, and the worst counts where an aim says so."""
    (row,) = [row for row in ROWS if row.name == "failover"]

    assert row.is_met([0.4, 0.9, 0.5], {}) is True
    assert row.is_met([0.4, 1.1, 0.5], {}) is False


async def test_a_write_that_fails_before_a_kill_is_made_again(tmp_path: Path) -> None:
    """Whoever was started again may not answer at once: no leader is killed before a write was acknowledged."""
    system = Ours(tmp_path, Durability.FSYNC)
    system.refuses = 1

    assert len(await leader_killed(Turn(system=system, seconds=0.002, kills=2), of_keys=True)) == 2


async def test_a_try_that_hangs_keeps_no_other_from_being_made(tmp_path: Path) -> None:
    """A write that never ends after a kill is not waited for: the next one is made beside it."""
    calls = 0

    class Hangs(Ours):
        async def attempt(self, topic: str | None) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:  # The first is before the kill.
                await asyncio.Event().wait()

        async def recover(self, topic: str | None) -> None:
            pass

    (took_s,) = await leader_killed(
        Turn(system=Hangs(tmp_path, Durability.FSYNC), seconds=0.002, kills=1), of_keys=True
    )

    assert calls == 3
    assert took_s > 0


def test_the_kafka_of_the_comparison_is_not_the_one_under_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two has its own jars: neither is measured, nor judged, in the place of the other."""
    monkeypatch.delenv(LIBS_VARIABLE, raising=False)
    assert jars_folder(POM) != jars_folder()
    assert "<version>4.1" in POM.read_text(encoding="utf-8")


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_each_system_says_what_it_is(system: type[System]) -> None:
    """Importing a peer needs nothing of it, and it says what is missing without being started."""
    assert system.durabilities
    assert system.settings
    assert system.missing() is None or "install" in str(system.missing())
    assert any(row.durability_for(system) for row in ROWS)
    assert system.missing() is not None or system.version()


async def test_a_loop_that_has_no_time_makes_its_calls_once() -> None:
    """There is a figure also where the machine does nothing for longer than a row takes."""
    answered = await closed_loop(lambda _: asyncio.sleep(0), 3, 0.0)

    assert len(answered.took_s) == 3
