"""Every setting of a replica: what it counts, what it may be, and which settings go together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docs.reference.tables import code, codes, prose, table
from replica.cli.config_setting import Setting
from replica.cli.start import sections, settings
from replica.cli.tls import tls_settings
from replica.core.setting_orders import ORDERS, ORDERS_OF_THE_CORE, Order
from replica.server.contradictions import CONTRADICTIONS, Contradiction

EXAMPLE = Path(__file__).parents[1] / "replica.toml"
"""A file that tests load."""


def page() -> str:
    """All settings, in the sections that ``replica start --help`` has."""
    head = ("setting", "unit or kind", "default", "it may be", "what it does", "changed")
    named = {str(setting.name): setting for setting in settings()}
    tables = "".join(
        f"## {heading}\n\n{table(head, map(_row, settings_in))}" for heading, settings_in in _sections(named)
    )
    return f"""# Settings of a replica

`replica start` takes a setting from the first of these that has it:

1. an option, `--fetch-timeout-ms 2000`; those of TLS stand before the command: `replica --tls-ca-file ... start`;
2. a variable of the environment, `REPLICA_FETCH_TIMEOUT_MS`; one that is empty does not count;
3. the TOML file that `--config` or `REPLICA_CONFIG` names, `fetch-timeout-ms = 2000`;
4. the default.

A table, such as `[voter]`, is an option that may be repeated. It is taken whole from one of these places; in the
environment blanks separate its entries. Paths are relative to where the replica is started.
`replica config show --origin` prints what holds, and where it comes from; `replica config check FILE` checks a file.

Whatever is no setting, has another type, or is outside of what the tables below say, is refused at start, and so are
settings [that cannot work together](#settings-that-go-together).

How a setting is changed (Kafka's update mode): `read-only` ones by restarting replicas one after another; `per-broker`
ones while replicas run, of one broker or of all, and `cluster-wide` ones of all (`replica config set`). The controller
writes them to the metadata log, and every replica goes by them as soon as it has read that, over what it was started
with. The [settings of topics](topics.md) are changed likewise (`replica topic alter`).

{tables}## A file of settings

```toml
{EXAMPLE.read_text(encoding="utf-8")}```

## Settings that go together

{table(("setting", "", "setting", "or else"), map(_order, ORDERS_OF_THE_CORE + ORDERS))}
{table(("settings", "what must hold"), map(_contradiction, CONTRADICTIONS))}"""


def _sections(named: dict[str, Setting]) -> Iterator[tuple[str, list[Setting]]]:
    for heading, names in sections().items():
        yield heading, [named[name] for name in names if name in named]
    yield "TLS", tls_settings()


def _row(setting: Setting) -> tuple[str, ...]:
    held = ", ".join(str(value).lower() for value in setting.holds)
    default = "must be given" if setting.required else code(held)
    return (
        code(setting.key),
        prose(setting.unit),
        default,
        prose(setting.may_be),
        prose(setting.help or ""),
        setting.mode,
    )


def _order(order: Order) -> tuple[str, ...]:
    return code(_key(order.lesser)), order.rule, code(_key(order.greater)), order.otherwise


def _contradiction(contradiction: Contradiction) -> tuple[str, ...]:
    return codes(map(_key, contradiction.settings)), prose(contradiction.rule)


def _key(name: str) -> str:
    return name.replace("_", "-")
