"""``replica start``, but replica 2 serves for ever with the certificate that it began with."""

from __future__ import annotations

import sys

from replica.cli.__main__ import main
from replica.rpc import tls

if __name__ == "__main__":
    if sys.argv[sys.argv.index("--replica-id") + 1] == "2":
        tls._Renewed.fetch = lambda _: None  # type: ignore[assignment,method-assign]
    main(["start", *sys.argv[1:]])
