"""The page of a replica's settings: none is missing on it, and what it says of each is what the code holds."""

from __future__ import annotations

import re

import pytest

from docs.reference.pages import PAGES
from replica.cli.config_file import settings_of
from replica.cli.config_setting import Setting
from replica.cli.start import start_command
from replica.core.metadata.configs import TopicSetting
from replica.core.setting_orders import ORDERS, ORDERS_OF_THE_CORE
from replica.core.settings import NUMBERS
from replica.server.contradictions import CONTRADICTIONS

SETTINGS = settings_of(start_command())


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    """The row of each setting, cell by cell."""
    lines = [line for line in PAGES["settings.md"]().splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for line in lines if len(cells := _cells(line)) == 6}


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_setting_is_on_the_page(rows: dict[str, list[str]]) -> None:
    """Each has a row, and nothing else has one."""
    assert set(rows) == {setting.key for setting in SETTINGS}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_no_setting_goes_without_a_word(setting: Setting, rows: dict[str, list[str]]) -> None:
    """Each has a unit, what it may be, and what it does, on the page and in the help."""
    unit, default, may_be, says, mode = rows[setting.key]
    assert unit == setting.unit
    assert setting.unit
    assert may_be
    assert says.endswith((".", "..."))
    assert setting.help
    assert mode == setting.mode
    assert (default != "") == bool(setting.holds or setting.required)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_range_of_a_number_is_the_one_that_is_checked(name: str, rows: dict[str, list[str]]) -> None:
    """What the page shows is what the server holds its options to."""
    unit, _, may_be, _, mode = rows[name.replace("_", "-")]
    assert (unit, may_be) == (NUMBERS[name].unit, f"{NUMBERS[name].least} to {NUMBERS[name].most}")
    assert mode == NUMBERS[name].mode


def test_a_unit_is_the_one_of_the_name() -> None:
    """A name that ends with a unit is of that unit."""
    units = {"ms": "ms", "bytes": "bytes", "seconds": "s", "percent": "%"}
    for name, number in NUMBERS.items():
        said = [units[word] for word in name.split("_") if word in units]
        assert not said or said == [number.unit], name


def test_everything_that_goes_together_is_told() -> None:
    """Each rule between settings is on the page, those of the core included."""
    text = PAGES["settings.md"]()
    for order in ORDERS_OF_THE_CORE + ORDERS:
        lesser, greater = order.lesser.replace("_", "-"), order.greater.replace("_", "-")
        assert f"| `{lesser}` | {order.rule} | `{greater}` | {order.otherwise} |" in text
    for contradiction in CONTRADICTIONS:
        assert f"`{contradiction.settings[0].replace('_', '-')}`" in text
        assert f" | {contradiction.rule} |" in text


def test_settings_of_topics_are_told_with_what_they_must_be() -> None:
    """Each has a unit and what a refusal says of it."""
    text = PAGES["topics.md"]()
    for setting in TopicSetting:
        row = rf"^\| `{re.escape(setting.value)}` \| `[^`]+` \| `\w+` \| [\w ^-]+ \| .+\. \|$"
        assert re.search(row, text, re.MULTILINE)
    assert "| `min.insync.replicas` | `1` | `replicas` | a number from 1 to 2147483647 | " in text
    assert "| `retention.ms` | `604800000` | `ms` | a number from -1 to 2^63 - 1 | " in text
