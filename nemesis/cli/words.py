"""What several commands take alike: the name of a wrong protocol, how long something lasts."""

from __future__ import annotations

import click

from nemesis.variants.catalogue import BUILT
from replica.cli.help import Named

variant_name = Named(lambda: BUILT, "`nemesis list-variants` lists all")
TIME_LIMIT_S_MAX = 86_400.0
time_limit = click.FloatRange(1, TIME_LIMIT_S_MAX)
