"""Messages between stages on links that are shaped as the lab shapes them, for one machine.

Each message is carried by itself: it waits in its sender's queue, shares links with those under
way, and takes processor time of both ends. Collectives beside them keep their closed form, so that
where both cross one link at once neither slows the other.
"""

import math
from dataclasses import replace

import numpy as np

from paceline.cluster import Cluster
from paceline.cluster.machine import Machine
from paceline.cluster.network import Network
from paceline.cluster.tcp import burst_bytes, least_queue_bytes
from paceline.cost import GLOO
from paceline.graph import NONE
from paceline.predict.run import Replayer
from paceline.replay import Shaping, shaped_links


def on_shaped_links(run: Replayer, cluster: Cluster, machine: Machine) -> Replayer:
    """The same replay with its messages on the cluster's links, which then say how long each takes
    and what it takes of the cores."""
    transfers = shaped_links(run.graph, cluster, shaping_of(cluster, machine))
    hosts = run.hosts
    if hosts is not None:
        carried = np.where(transfers.carried, NONE, np.arange(len(run.graph)))
        hosts = hosts.renumbered(carried)
    return replace(run, transfers=transfers, hosts=hosts)


def shaping_of(cluster: Cluster, machine: Machine) -> Shaping:
    """The lab's links, and what a message on them takes of the machine."""
    links, share = Network(cluster).links, cluster.transport.efficiency
    segments = cluster.transport.gso_max_segs
    return Shaping(
        machine.cpu_ns_per_byte - machine.send_ns_per_byte,
        tuple(share * burst_bytes(8 * x.bytes_per_s / share, segments) for x in links),
        round(machine.message_ns),
        round(machine.late_ns),
        _window_bytes(min(link.bytes_per_s for link in links), least_queue_bytes(cluster)),
        one_way=GLOO.one_way,
    )


def _window_bytes(bytes_per_s: float, queue_bytes: int) -> float:
    """What TCP keeps of a message in its link's queue: as much as its pace sends in a millisecond
    (the kernel's small queues), at a pace of 1.2 windows a round trip, with a window of what the
    queue holds and a round trip that is the time in the queue. Seen at 200 Mbit/s: 60 to 130 KB."""
    return math.sqrt(1.2 * queue_bytes * bytes_per_s / 1024)
