"""What messages wait for on cores that workers share."""

from paceline.cluster import Cluster, Device, Host, Link
from paceline.cluster.machine import Machine
from paceline.cost.calls import calls_of
from paceline.graph import Graph, OpKind
from paceline.graph.synthetic import TrainingJob, training
from paceline.measure.handling import Handling
from paceline.predict.sharing import library_of, shared_of
from paceline.strategies import parse

MACHINE = Machine(2.0, turn_ns=1e6)
PAIR = Cluster(tuple(Host(f"h{i}", Device("core")) for i in range(2)), Link.both_ways(1e9))


def turns(graph: Graph, kind: OpKind) -> set[int]:
    """What ops of a kind wait, in turns."""
    library = library_of(MACHINE).library_of(PAIR)
    shared = shared_of(graph, calls_of(graph, PAIR, library), library, MACHINE)
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
    more = shared_of(made, calls, library, MACHINE, handling).cpu_ns
    more = more - shared_of(made, calls, library, MACHINE).cpu_ns
    told = made.ops.kind == OpKind.TRANSFER
    assert set(more[told].tolist()) == {2 * (100 + 20 + 7 + 3)}
    assert not more[~told].any()
