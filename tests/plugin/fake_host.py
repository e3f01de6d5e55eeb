"""A process that answers as the owner of a cluster does, and has no replicas: each answer is what was asked."""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(document: dict[str, Any]) -> None:
    """Write one answer."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Three replicas that nobody has started; ``cut`` is an error, ``late`` answers the first call with the second."""
    addresses = {str(node): f"127.0.0.1:{node}" for node in (1, 2, 3)}
    answer({"addresses": addresses, "topic_partitions": ["topic1-0"]})
    if "late" in sys.argv:
        first = json.loads(sys.stdin.readline())
        rest = sys.stdin.readline()
        answer({"done": first["do"]} if rest else {})
    for line in sys.stdin:
        asked = json.loads(line)
        answer({"error": "no links"} if asked["do"] == "cut" else {"done": asked["do"]})


if __name__ == "__main__":
    main()
