"""Every decoder that is fuzzed, by its name: what is added to one of the lists is fuzzed, replayed and counted."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz.decoder import Decoder
from tests.fuzz.decoders import histories, machines, messages, records, runs, storage, words

DECODERS: Mapping[str, Decoder] = {
    decoder.name: decoder
    for decoders in (records, storage, machines, messages, words, runs, histories)
    for decoder in decoders.DECODERS
}
BOUNDED: Mapping[str, Decoder] = {decoder.name: decoder for decoder in runs.WHOLE_RUNS}
"""What is fuzzed by the tests alone, since one input takes so long."""
