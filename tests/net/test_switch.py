"""The kernel's switch in a lab that stands: priorities, importance, marks, spraying."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.cluster import Cluster, Device, Host, LeafSpine, Link, Switch, Topology, dump, parse
from paceline.cluster.topologies import Star
from paceline.lab import Lab
from paceline.wire.switch import Code, tos
from paceline.wire.switch.kernel import counts

pytestmark = [
    pytest.mark.net,
    pytest.mark.needs("root", "namespaces", "iproute2", "bpf"),
]

NAME = f"test-switch-{os.getpid()}"

JOB = """
import json, os, select, socket, sys, time
rank, seconds, flows = int(os.environ["RANK"]), 0.8, json.loads(sys.argv[1])
if rank == 0:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    udp.bind(("", 5001))
    server = socket.create_server(("", 5002), backlog=8)
    links = [server.accept()[0] for _ in flows]
    for link in links:
        link.sendall(b"g")
    got = {str(n): 0 for n in range(1, len(flows) + 1)}
    marked = dict.fromkeys(got, 0)
    sent, open_links = {}, set(links)
    while open_links or select.select([udp], [], [], 0.3)[0]:
        ready, _, _ = select.select([udp, *open_links], [], [], 1.0)
        for one in ready:
            if one is udp:
                data, words, _, _ = udp.recvmsg(2000, 64)
                source = str(data[0])
                got[source] += 1
                marked[source] += words[0][2][0] & 3 == 3
            else:
                source, count = one.makefile().readline().split()
                sent[source] = int(count)
                open_links.remove(one)
    print(json.dumps({n: dict(sent=sent[n], got=got[n], marked=marked[n]) for n in got}))
elif rank <= len(flows):
    byte, bits_per_s = flows[rank - 1]
    while True:
        try:
            link = socket.create_connection((os.environ["MASTER_ADDR"], 5002))
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, byte)
    udp.connect((os.environ["MASTER_ADDR"], 5001))
    link.recv(1)
    gap, count, begin = 1042 * 8 / bits_per_s, 0, time.monotonic()
    while (now := time.monotonic()) < begin + seconds:
        while count * gap <= now - begin:
            udp.send(bytes([rank]) + bytes(999))
            count += 1
        time.sleep(0.001)
    link.sendall(f"{rank} {count}\\n".encode())
    link.recv(1)
"""


def cluster(hosts: int, bits_per_s: float, topology: Topology, switch: Switch | None) -> Cluster:
    link = Link(bits_per_s / 8, bits_per_s / 8, buffer_bytes=64_000)
    made = tuple(Host(f"h{i}", Device("core")) for i in range(hosts))
    return Cluster(made, link, topology, switch=switch)


def received(lab: Lab, flows: list[tuple[int, float]], logs: Path) -> dict[str, Any]:
    """Of each sending rank: packets sent, received, marked."""
    command = [sys.executable, "-c", JOB, json.dumps(flows)]
    found: dict[str, Any] = json.loads(lab.run(command, timeout_s=60, logs=logs).text(0))
    return found


def test_a_cluster_file_names_its_switch() -> None:
    made = cluster(2, 1e7, Star(), Switch(drop=0.5, mark=0.1, spray=True))
    assert parse(dump(made)) == made
    assert "switch" not in dump(cluster(2, 1e7, Star(), None))


def test_under_too_much_load_the_switch_drops_what_is_unimportant(
    tmp_path: Path,
) -> None:
    flows = [
        (tos(Code(1, 7), markable=True), 10e6),
        (tos(Code(5, 0), markable=False), 16e6),
    ]
    with Lab(cluster(3, 20e6, Star(), Switch()), NAME) as lab:
        found = received(lab, flows, tmp_path)
        cells = {c.code: c for c in counts(NAME, "switch-0", "eth0")}
    important, other = cells[Code(1, 7)], cells[Code(5, 0)]
    assert important.dropped == 0
    assert important.passed == found["1"]["got"] > 100
    assert important.marked == found["1"]["marked"]
    # A third of what is offered cannot pass; busy cores may make senders offer less.
    assert other.dropped > 0.1 * (other.passed + other.dropped)
    assert other.passed == found["2"]["got"]


def test_sprayed_packets_take_both_paths(tmp_path: Path) -> None:
    """Two leaves, two spines whose cables have half a host's rate each."""
    flows = [(tos(Code(1, 7), markable=False), 8e6)]
    topology = LeafSpine(hosts_per_leaf=1, spines=2)
    with Lab(cluster(2, 10e6, topology, Switch(spray=True)), NAME) as lab:
        found = received(lab, flows, tmp_path)
        passed = [
            next(c.passed for c in counts(NAME, "switch-1", f"eth{port}") if c.code)
            for port in (1, 2)
        ]
    assert found["1"]["got"] == sum(passed) > 100
    assert abs(passed[0] - passed[1]) <= 0.02 * sum(passed)
