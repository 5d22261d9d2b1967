"""What messages wait for on cores that workers share."""

from dataclasses import replace

import numpy as np
import pytest

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.cost.calls import calls_of
from paceline.graph import Collective, Graph, OpKind
from paceline.graph.synthetic import TrainingJob, training
from paceline.measure.handling import Handling
from paceline.predict.sharing import On, library_of, shared_of
from paceline.strategies import parse

MACHINE = Machine(2.0, turn_ns=1e6)
PAIR = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(1e9))


def turns(graph: Graph, kind: OpKind) -> set[int]:
    """What ops of a kind wait, in turns."""
    library = library_of(MACHINE).library_of(PAIR)
    shared = shared_of(graph, calls_of(graph, PAIR, library), library, On(MACHINE, PAIR))
    return {int(ns // 1e6) for ns in shared.turn_ns[graph.ops.kind == kind]}


def test_an_announcement_waits_for_its_message_and_for_a_thread_at_either_end() -> None:
    job = training(TrainingJob(layers=2))
    made = parse("priority").transform(job)
    assert turns(made, OpKind.TRANSFER) == {3}
    assert turns(made, OpKind.COLLECTIVE) == turns(job, OpKind.COLLECTIVE) != {0}
    assert turns(made, OpKind.COMPUTE) == {0}


def test_an_announced_exchange_takes_every_member_what_calls_from_python_take() -> None:
    made = parse("priority").transform(training(TrainingJob(layers=2)))
    library = library_of(MACHINE).library_of(PAIR)
    calls = calls_of(made, PAIR, library)
    handling = Handling(call_ns=100, peer_ns=20, sum_ns=7, sum_peer_ns=3)
    more = shared_of(made, calls, library, On(MACHINE, PAIR), handling).cpu_ns
    more = more - shared_of(made, calls, library, On(MACHINE, PAIR)).cpu_ns
    told = made.ops.kind == OpKind.TRANSFER
    assert set(more[told].tolist()) == {2 * (100 + 20 + 7 + 3)}
    assert not more[~told].any()


def test_what_our_transport_carries_takes_what_datagrams_were_measured_to_take() -> None:
    machine = replace(MACHINE, cpu_ns_per_byte=4.0, datagram_ns_per_byte=7.0)
    made = parse("bounded_loss").transform(training(TrainingJob(layers=2)))
    library = library_of(machine).library_of(PAIR)
    calls, ways = calls_of(made, PAIR, library), (Collective.PUSH, Collective.PULL)
    ours = shared_of(made, calls, library, On(machine, PAIR), carried=ways).cpu_ns
    tcp = shared_of(made, calls, library, On(machine, PAIR)).cpu_ns
    sent = np.isin(made.ops.collective, ways)
    assert sent.any()
    assert (tcp[sent] > 0).all()
    assert ours[sent].tolist() == np.rint(tcp[sent] * 7 / 4).tolist()
    assert (ours[~sent] == tcp[~sent]).all()
    unmeasured = replace(machine, datagram_ns_per_byte=0.0)
    same = shared_of(made, calls, library, On(unmeasured, PAIR), carried=ways).cpu_ns
    assert (same == tcp).all()


def test_beside_work_a_byte_takes_more_over_a_slower_link() -> None:
    machine = Machine(2.0, fast_beside_ns_per_byte=2.0, slow_beside_ns_per_byte=6.0)
    rates = (1.25e9, 125e6, 125e6 / 10**0.5, 12.5e6, 1e6)
    assert [machine.beside_ns_per_byte(rate) for rate in rates] == pytest.approx([2, 2, 4, 6, 6])
    assert Machine(2.0).beside_ns_per_byte(12.5e6) == 0  # not measured


def test_beside_work_a_collective_takes_its_call_and_its_bytes_over_its_slowest_link() -> None:
    machine = replace(MACHINE, slow_beside_ns_per_byte=6.0, call_beside_ns=1e5)
    slow = Link.both_ways(12.5e6)
    mixed = replace(PAIR, hosts=(PAIR.hosts[0], replace(PAIR.hosts[1], link=slow)))
    job = training(TrainingJob(layers=2))
    library = library_of(machine).library_of(mixed)
    shared = shared_of(job, calls_of(job, mixed, library), library, On(machine, mixed))
    rows = job.ops.kind == OpKind.COLLECTIVE
    size = job.ops.size_bytes[rows]
    assert shared.beside_ns[rows].tolist() == (6 * size + 100_000).tolist()
    assert shared.cpu_ns[rows].tolist() == np.rint(machine.cpu_ns_per_byte * size).tolist()
    assert not shared.beside_ns[~rows].any()
