"""How much of a foreign file is believed: each limit has its name, and each error that it causes says the name.

A history comes from anybody. Without limits a file of a few kilobytes could take all memory (compressed zeros, a number
of a million digits) or the stack (a hundred thousand brackets).
"""

from __future__ import annotations

FILE_BYTES_MAX = 8 * 1024**3
"""How many bytes are read of one file, after decompression; of Parquet, as many as its end tells of."""
DOCUMENT_BYTES_MAX = 256 * 1024**2
"""How many bytes one JSON array may take, which is held in memory as a whole; one object a line is not."""
GROUP_BYTES_MAX = 2 * 1024**3
"""How many bytes, decompressed, one row group of Parquet may have: its pages are held at a time, of any size."""
HELD_BYTES_MAX = 2 * 1024**3
"""How many bytes the values of one file may take in memory, but for plain numbers: those are bounded by EVENTS_MAX."""
LINE_BYTES_MAX = 16 * 1024**2
"""How long a line may be where the format is one event a line."""
STRING_CHARS_MAX = 1_000_000
"""How long one text, name or comment may be."""
NAME_CHARS_MAX = 200
"""How long the name of an operation, a field or a process may be."""
DIGITS_MAX = 100
"""How many digits a number may have."""
TIME_MAX = 2**63 - 1
"""The greatest time and index: what 64 bits hold."""
NESTING_MAX = 64
"""How deep lists may lie in lists."""
VALUES_MAX = 1_000_000
"""How many values one event may have in it, those within others counted: elements of lists and sets, keys of maps."""
EVENTS_MAX = 20_000_000
"""How many events one file may have."""
