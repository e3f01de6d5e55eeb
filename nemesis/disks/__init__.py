"""Disks of real replicas that lose their power, refuse, tarry and rot.

A replica is started on files of ours (``files``). Every change that it makes to its data directory stands in an account
beside that (``place`` says where, ``account`` in which form) before it is done, and so survives its SIGKILL. ``power``
takes back what was not flushed: it does the account again to a disk in memory (``simulated_files``, the simulator's as
well), lets that lose its power, and writes down what is left. While a replica runs, its disk is hindered by a word in
another file (``hindrance``); while it does not, a file of it can be damaged (``spoiling``; ``damage`` is what was
done). How a harness orders all this is the business of ``nemesis.cluster.hindered_disks``.
"""

from __future__ import annotations
