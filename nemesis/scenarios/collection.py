"""The stories that come with the product, by name.

Owns where they are kept. A story is a scenario file whose output a test compares, so what it tells is true today.
"""

from __future__ import annotations

from pathlib import Path

STORIES = Path(__file__).parent / "stories"
QUORUM = ("election", "divergence-by-epoch", "zombie-leader", "restarted-leader-resigns", "figure-8")
"""About one quorum log, whose replicas elect their leader themselves, in the order in which to read them."""
PARTITIONS = (
    "two-round-high-watermark",
    "data-loss",
    "divergence",
    "fast-failovers",
    "isr-shrink-and-expand",
    "last-replica-standing",
    "unclean-election",
    "fenced-leader",
)
"""About a partition that is kept by its in-sync replicas, in the order in which to read them."""
ORDER = (*QUORUM, *PARTITIONS)
"""A story that is not here comes after these."""


def story_names() -> tuple[str, ...]:
    """Every story, in the order in which to read them."""
    found = {path.stem for path in STORIES.glob("*.txt")}
    return (*(name for name in ORDER if name in found), *sorted(found.difference(ORDER)))


def story_text(name: str) -> str:
    """The scenario file of a story. Raises FileNotFoundError if there is none of that name."""
    return (STORIES / f"{name}.txt").read_text(encoding="utf-8")


def title_of(text: str) -> str:
    """What the story is called: its first line."""
    return text.partition("\n")[0].removeprefix("#").strip()
