"""Corpora of any system, judged by a model: operations -> judgements of objects -> anomalies -> verdict.

The way of the data: ``schemas`` (the tables) <- ``encoding`` (operations as rows, and back) <- ``store`` (folders of
Parquet) or ``histories`` (files of any known format). ``plan`` puts objects into buckets, and ``hot`` judges those that
would fill one by windows: it cuts those of registers ahead; all others are a ``chain``, with what ``states`` or
``logs`` (``log_numbers``) carry from one window to the next. ``bucket`` judges one, whoever
calls it: ``local`` in this process, out of files (``dealing``), ``on_spark`` on a cluster, out of blobs (``pieces``);
``parts`` convicts what is too large for it. ``results`` makes anomalies and a verdict of the judgements and writes
them. ``engine`` chooses. Beside it stands ``workloads``: files of which logs are judged, and no objects.
"""
