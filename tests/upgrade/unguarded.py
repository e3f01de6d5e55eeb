"""Start a replica whose controller raises the feature level whoever does not know it: ``python -m`` this file."""

from __future__ import annotations

from replica.cli.start import start_command
from replica.core.rules import Rules


class RaisesTheLevelUnasked(Rules):
    """Writes records of a level below which some replicas are."""

    def lacks_level(self, *, newest_level: int | None, level: int) -> bool:
        """Everybody knows everything."""
        return False


if __name__ == "__main__":
    start_command(RaisesTheLevelUnasked, None, None).main(prog_name="unguarded")
