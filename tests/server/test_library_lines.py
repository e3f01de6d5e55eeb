"""What libraries log on their own comes out as lines of ours, unless it is no news to an operator."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import logging
from replica.server.log_lines import configure_logging
configure_logging(level="info", json=True)
logging.getLogger("grpc._cython.cygrpc").error({message!r}, "/replica.v1.ReplicaService/Produce")
"""


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Unexpected [%s] raised", ["Unexpected [/replica.v1.ReplicaService/Produce] raised"]),
        ("ExecuteBatchError raised in core by servicer method [%s]", []),
    ],
)
def test_a_caller_that_hangs_up_is_no_error(message: str, expected: list[str]) -> None:
    """A failure inside gRPC is a JSON line; a caller that left before its reply is none."""
    program = PROGRAM.format(message=message)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert [json.loads(line)["event"] for line in ended.stderr.splitlines()] == expected
