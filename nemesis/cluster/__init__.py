"""Clusters under test: what a system must offer, where its nodes run, and replicas of ours that offer it.

The way through: ``system`` (the protocol through which a run reaches any system) -> ``host`` (the one through which a
system reaches its nodes, wherever they run) -> ``kinds`` (the hosts that there are). Nodes that are processes of this
machine: ``launcher`` (a process that dies with the harness) -> ``processes`` (one of them, and the last one of each
node) -> ``link_proxy`` (one directed link that can be cut) -> ``links`` (all of them) -> ``local`` (that host). Wall
clocks of nodes that are not ours: ``faketime``. Nodes in network namespaces: ``netns_enter`` (a network of our own) ->
``netns_tools`` (the programs that set it up, and what the kernel is told) -> ``netns_links`` (the links) -> ``netns``
(that host) -> ``netns_probe`` (what of it this machine can do). Nodes in containers: ``containers_engine`` (Docker) ->
``containers_process`` (one process in a container) -> ``containers_network`` (addresses that stay, and rules for links)
-> ``containers`` (that host). Our replicas on any host: ``topic_client`` (the workload's client over ours) ->
``control`` (the harness's own look at replicas), ``operators`` (what operators ask of them) -> ``replica_options`` and
``replicas`` (the cluster) -> ``log_lines`` (what replicas wrote, as events of the run).
"""

from __future__ import annotations
