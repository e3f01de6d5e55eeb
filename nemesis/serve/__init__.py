"""The store as pages: a web application over it, the same as files, and what prunes it.

Whatever starts, records and judges runs is elsewhere, and only ``pruning`` changes anything. The way of the data, file
by file: ``store`` (which runs there are, and what may be opened: nothing else) -> ``summary`` (a run as one row, read
once) -> ``choice`` (which rows are asked for) and ``matrix`` (a row for what was run, a cell for each seed; and how
those of each commit ended); ``detail`` (all about one run), ``comparison`` (two of them), ``rows`` (its tables,
page by page), ``sql`` and ``sql_process`` (queries about these, bounded, in a process of their own), ``condition``
(which operations of a run are asked for), ``live`` (a run that goes on) -> ``pages`` (templates and links) ->
``application`` (which address shows which page) behind ``guard`` (who may ask), or ``static_folder`` (lists and runs as
files). ``pruning`` says which runs go, and removes them.
"""

from __future__ import annotations
