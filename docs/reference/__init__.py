"""The reference of the documentation's site, written from the code whenever the site is built.

The way through: ``tables`` (Markdown from values), ``comments`` (what the source says of a name) -> ``commands`` (what
click knows), ``rpcs`` (what the compiler of protocol buffers knows), ``declarations`` (anomalies, faults, workloads,
systems, models), ``files`` (the columns of tables and the formats that are read), ``replica_settings``
and ``settings`` (topics, metrics) -> ``pages`` (all of them) -> ``hook`` (where MkDocs takes them).

Nothing of it is committed: a page cannot say anything but what the code says.
"""
