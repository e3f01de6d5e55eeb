"""Clients of replicated state machines: commands that count once, and questions.

Read in this order. ``failures`` is what is raised, ``config`` has the bounds, and ``view`` knows who leads the group.
``queries`` puts questions, which travel ``together``. A command goes by ``client`` to ``sender``, waits in
``commands``, is numbered in the session of ``sessions``, travels by ``calls``, and ``verdicts`` judges what has become
of it. ``key_value`` is the typed client of the built-in store, ``watch`` its changes as they come, and ``quorum`` the
state of a group's voters, and which of them leads; ``voters`` changes who they are. ``snapshot`` loads the whole state
of a group.
"""

from __future__ import annotations
