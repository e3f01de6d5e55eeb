"""``replica start``, but replica 2 takes 4 MiB more and opens a file four times a second, and never lets go of them."""

from __future__ import annotations

import os
import sys
import threading
import time

from replica.cli.__main__ import main

LEAKING = "2"
PAUSE_S = 0.25
_kept: list[object] = []


def _leak() -> None:
    while True:
        _kept.append((os.urandom(1 << 20), os.open(os.devnull, os.O_RDONLY)))
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    if sys.argv[sys.argv.index("--replica-id") + 1] == LEAKING:
        threading.Thread(target=_leak, daemon=True).start()
    main(["start", *sys.argv[1:]])
