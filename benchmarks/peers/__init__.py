"""Highwater and its peers on the same machine, in turn, in one run: ``python -m benchmarks.peers``.

The way through: ``system`` (what every system can be asked for) -> ``highwater``; ``foreign`` and on it ``kafka``,
``etcd``, ``rabbitmq`` -> ``rows`` (what is measured, with its aim) -> ``turns`` (rounds of systems of rows, and the
document of figures) -> ``table`` and ``chart`` (what is drawn of it) -> ``__main__``.
"""

from __future__ import annotations
