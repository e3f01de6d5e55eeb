"""Histories of others, read and written: a file in, events and operations out, or the other way round.

The way of the data: ``recognise`` (which format a file has) -> ``source`` (its bytes as text, within ``limits``) -> a
reader (``jepsen_edn`` on ``edn``, of Maelstrom and of Porcupine as well, ``jepsen_log``, ``json_lines``, ``parquet``)
-> ``events`` (one value for each event, its parts from ``values``) -> ``keyed`` (keys that stand in the values) ->
``pairing`` and ``shapes`` (operations as ``nemesis.linearizability`` judges them); ``reading`` is all of it in one
call. Back: ``json_writer`` for values, and ``kafka_edn`` on ``edn_text`` for the runs of this harness. Whatever is
wrong with a file is one of ``errors``, with the line. Nothing here imports the system that is judged.
"""
