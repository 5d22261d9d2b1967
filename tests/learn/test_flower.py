"""Flower's nodes carry the clients: the same run as here, client by client."""

import time
from collections.abc import Iterable, Sequence

import pytest

pytest.importorskip("flwr", reason="the package flwr is not installed")

from flwr.app import Context, Error, Message, Metadata, RecordDict
from flwr.serverapp import Grid

from paceline.learn import LearnError, Task, run
from paceline.learn.flower import client_app, serve

FIRST = 100  # the number of client 0's node


class Nodes(Grid):
    """Real letters to real apps, each with its node's own state, in one process."""

    def __init__(self, task: Task, fails: tuple[int, int] = (-1, -1)) -> None:
        self.clients = list(range(len(task.partition)))
        self.apps = {n: client_app(lambda: task) for n in self.clients}
        self.states = {
            n: Context(1, FIRST + n, {"partition-id": n}, RecordDict(), {}) for n in self.clients
        }
        self.fails = fails  # which client in which round

    def get_node_ids(self) -> Iterable[int]:
        return [FIRST + n for n in self.clients]

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None) -> Message:
        told = Metadata(1, "", 0, dst_node_id, "", group_id, time.time(), 60.0, message_type)
        return Message(content=content, metadata=told)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Sequence[Message]:
        return [self.answer(letter) for letter in messages]

    def answer(self, letter: Message) -> Message:
        client = letter.metadata.dst_node_id - FIRST
        if (client, letter.metadata.group_id) == (self.fails[0], str(self.fails[1])):
            return Message(Error(0, "fell over"), reply_to=letter)
        return self.apps[client](letter, self.states[client])

    @property
    def run(self):
        raise NotImplementedError

    set_run = push_messages = pull_messages = run


@pytest.mark.parametrize(
    "text", ["fedavg(steps=3)", "scaffold(steps=3)", "feddst(steps=2, every=2)"]
)
def test_nodes_of_flower_make_the_same_run_client_by_client(toy, text: str) -> None:
    task = toy.task(text, 6)
    here, there = run(task), serve(task, Nodes(task))
    assert [j.accuracy for j in there.judged] == [j.accuracy for j in here.judged]
    assert [j.sent_bytes for j in there.judged] == [j.sent_bytes for j in here.judged]
    for one, other in zip(there.rounds, here.rounds):
        assert one.trips == other.trips
        done = [[(work.client, work.samples) for work in each.works] for each in (one, other)]
        assert done[0] == done[1]


def test_a_node_that_fails_is_left_out_of_the_round_counted_and_named(toy) -> None:
    task = toy.task("fedavg(steps=3)", 6)
    found = serve(task, Nodes(task, fails=(2, 3)))
    assert found.broken == {2: 1}
    assert len(found.judged) == len(run(task).judged)


def test_a_client_without_a_node_is_named_and_peers_are_refused(toy) -> None:
    task = toy.task("fedavg(steps=3)", 2)
    nodes = Nodes(task)
    nodes.clients.remove(1)
    with pytest.raises(LearnError, match="client 1 of"):
        serve(task, nodes, patience_s=0.0)
    with pytest.raises(LearnError, match="no server"):
        serve(toy.task("gaia", 2), nodes)
