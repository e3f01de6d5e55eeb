"""The pages of the reference: nothing that is declared is missing on them."""

from __future__ import annotations

import re

import click
import pytest

from docs.reference import commands, comments, rpcs, settings, tables
from docs.reference.pages import PAGES
from nemesis.checks import CHECKS, schemas
from nemesis.faults.catalogue import FAULTS
from nemesis.formats.recognise import Format
from nemesis.history.schemas import HISTORY_SCHEMA
from nemesis.linearizability.models.registry import MODELS
from nemesis.systems.catalogue import SYSTEMS
from nemesis.workload.catalogue import WORKLOADS


@pytest.mark.parametrize("program", commands.PROGRAMS)
def test_every_option_of_every_command_is_told(program: str) -> None:
    """Each command has a heading, and each option that it shows has a row below it, before the next heading."""
    sections = dict(re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", PAGES[f"{program}.md"](), re.MULTILINE | re.DOTALL))
    missing = [
        f"{path} {option.opts[0]}"
        for path, command in commands.commands_of(program)
        if path != program
        for option in commands.options_of(command)
        if not re.search(rf"^\| `[^`|]*{option.opts[-1]}\b", sections.get(path, ""), re.MULTILINE)
    ]
    assert missing == []
    assert len(sections) > 10


def test_what_a_command_hides_is_not_told() -> None:
    """A hidden option has no row: it is nobody's to use."""
    shown, hidden = click.Option(["--shown"]), click.Option(["--hidden"], hidden=True)
    assert list(commands.options_of(click.Command("any", params=[shown, hidden]))) == [shown]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("anomalies.md", [check.promise for check in CHECKS]),
        ("faults.md", [f"`{kind}`" for kind in FAULTS]),
        ("workloads.md", [f"`{name}`" for name in (*WORKLOADS, *MODELS)]),
        ("systems.md", [f"`{name}`" for name in SYSTEMS]),
        ("files.md", [f"`{name}`" for name in (*Format, *HISTORY_SCHEMA.names, *schemas.ANOMALY_SCHEMA.names)]),
        ("topics.md", ["| `min.insync.replicas` | `1` |", "| `retention.bytes` | `-1` |"]),
    ],
)
def test_what_is_declared_is_told(page: str, names: list[str]) -> None:
    """No check, fault, workload, model, system, format or column goes without a word."""
    text = PAGES[page]()
    assert [name for name in names if name not in text] == []
    assert names


def test_every_rpc_is_told() -> None:
    """Each service, RPC, message and enum of ``proto/`` is there, with what its file says of it."""
    text, names = PAGES["rpcs.md"](), set()
    for file in rpcs.described():
        names |= {f"## {service.name}\n" for service in file.service}
        names |= {f"| `{method.name}` |" for service in file.service for method in service.method}
        names |= {f"### {each.name}\n" for each in file.message_type} | {
            f"### {each.name}\n" for each in file.enum_type
        }
    assert {name for name in names if name not in text} == set()
    assert "| `CreateTopic` | [`CreateTopicRequest`](#createtopicrequest) " in text
    assert "| Create a topic. |" in text


def test_metrics_have_the_names_that_are_served() -> None:
    """A counter ends with ``_total``, as on the page that Prometheus reads, and labels are named."""
    text = settings.metrics()
    assert "| `replica_appended_batches_total` | counter | `topic`, `partition` |" in text
    assert "| `replica_flush_seconds` | histogram | `topic`, `partition` |" in text
    assert "| `replica_role` | gauge | `topic`, `partition`, `role` |" in text


def test_a_bar_ends_no_cell() -> None:
    """Bars of words are escaped, bars of code need not be, and a line break ends no row."""
    assert tables.table(("a",), [("x | `y | z`\nw",)]).splitlines()[2] == "| x \\| `y | z` w |"


def test_prose_is_no_markup() -> None:
    """Angles, stars and underscores of a comment are shown; its code is code."""
    assert tables.prose("a <b> *c* __d__ ``e_f < g``") == r"a \<b> \*c\* \_\_d\_\_ `e_f < g`"


def test_what_stands_behind_a_name_is_its_comment() -> None:
    """The string behind an assignment belongs to it, and to no other."""
    assert comments.comments_of(schemas)["COVERAGE_SCHEMA"].startswith("What a check has looked at")
    assert "MICRO_OPERATION" not in comments.comments_of(schemas)
