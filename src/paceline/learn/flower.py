"""Clients on Flower's nodes: the same algorithms in a deployment of Flower (its package `flwr`).

    # client_app.py of a Flower app          # server_app.py
    app = client_app(task)                    app = server_app(task, Path("runs/real"))

`task()` makes the same `Task` everywhere. A node carries the client whose number is its
`partition-id`, and touches that client's samples alone; what the client remembers lies in the
node's state. A node that answers with an error or not in time is left out of the round, counted and
named. For algorithms that meet at a server: Flower's nodes do not speak to one another.
"""

import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, RecordDict
from flwr.app import Message as Letter
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from paceline.learn.algorithm import Served
from paceline.learn.carrier import Alone, Parcel
from paceline.learn.client import Client
from paceline.learn.errors import LearnError
from paceline.learn.message import SERVER, Message, packed, unpacked
from paceline.learn.record import ClientWork, LearnRun, save
from paceline.learn.running import finished
from paceline.learn.served_run import Answers, ServedRun
from paceline.learn.task import Task

Make = Callable[[], Task]

_TOLD = "paceline"  # the record of a letter that holds all
_PATIENCE_S = 600.0
_PAUSE_S = 0.5


def client_app(task: Make) -> ClientApp:
    """What a node runs."""
    app, made = ClientApp(), cache(task)

    def query(letter: Letter, context: Context) -> Letter:
        return Letter(_letter(client=_number(context)), reply_to=letter)

    def train(letter: Letter, context: Context) -> Letter:
        return Letter(_trained(made(), _told(letter), context), reply_to=letter)

    app.query()(query)
    app.train()(train)
    return app


def server_app(task: Make, out: Path) -> ServerApp:
    """Runs all rounds, and keeps the run in that folder."""
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        save([serve(task(), grid)], out)

    app.main()(main)
    return app


def serve(task: Task, grid: Grid, patience_s: float = _PATIENCE_S) -> LearnRun:
    """The whole run, its clients behind the grid."""
    if not isinstance(task.algorithm, Served):
        raise LearnError(
            f"{task.algorithm} has no server, and Flower's nodes do not speak to one another; take "
            "an algorithm that meets at a server, such as fedavg"
        )
    return finished(_OverGrid(task, grid, patience_s))


class _ServerAlone(Alone):
    """The server is here, the clients are somewhere else."""

    def of(self, number: int) -> int:
        return 0 if number == SERVER else 1


class _OverGrid(ServedRun):
    """Hands out and takes in by Flower's letters."""

    def __init__(self, task: Task, grid: Grid, patience_s: float) -> None:
        super().__init__(task, _ServerAlone())
        self._grid, self._patience_s = grid, patience_s
        self._nodes = self._found(len(task.partition))

    def answers(self, downs: Sequence[Parcel], number: int) -> Answers:
        bodies = {p.targets[0]: packed(p.message) for p in downs}
        letters = [
            self._grid.create_message(
                _letter(body=body, round=number), "train", self._nodes[client], str(number)
            )
            for client, body in bodies.items()
        ]
        told = {self._client(reply): _told(reply) for reply in self._sent(letters)}
        came = [
            Parcel(n, (SERVER,), unpacked(told[n]["body"]) if n in told else Message())
            for n in sorted(bodies)
        ]
        return Answers([self._work(n, told[n], number) for n in sorted(told)], came, came)

    def _work(self, client: int, told: Any, number: int) -> ClientWork:
        samples = int(told["samples"])
        share = self.how.arithmetic(self.at, number)
        return ClientWork(client, samples, samples * share, float(told["cpu_s"]))

    def _client(self, reply: Letter) -> int:
        node = reply.metadata.src_node_id
        return next(n for n, mine in self._nodes.items() if mine == node)

    def _sent(self, letters: Iterable[Letter]) -> list[Letter]:
        """Those that were answered well."""
        replies = self._grid.send_and_receive(letters, timeout=self._patience_s)
        return [reply for reply in replies if not reply.has_error()]

    def _found(self, clients: int) -> dict[int, int]:
        """The node of each client."""
        end = time.monotonic() + self._patience_s
        while len(nodes := list(self._grid.get_node_ids())) < clients:
            if time.monotonic() > end:
                break
            time.sleep(_PAUSE_S)
        asked = [self._grid.create_message(RecordDict(), "query", node, "") for node in nodes]
        found = {
            int(_told(reply)["client"]): reply.metadata.src_node_id for reply in self._sent(asked)
        }
        if missing := [n for n in range(clients) if n not in found]:
            raise LearnError(
                f"no node carries client {', '.join(map(str, missing))} of {clients}; start a node "
                "for each, with its number as partition-id in --node-config"
            )
        return found


def _trained(task: Task, told: Any, context: Context) -> RecordDict:
    """What a client makes of what it was handed; what it remembers is put back."""
    client = _client_of(task, context)
    seen, began = client.seen, time.thread_time()
    assert isinstance(task.algorithm, Served), "the server refuses others"
    made = task.algorithm.train(task.setting, client, unpacked(told["body"]), int(told["round"]))
    body = packed(made)
    cpu_s = time.thread_time() - began
    context.state[_TOLD] = ConfigRecord({"client": pickle.dumps(client)})
    return _letter(body=body, samples=client.seen - seen, cpu_s=cpu_s)


def _client_of(task: Task, context: Context) -> Client:
    """As it was left, else new."""
    if _TOLD in context.state:
        kept: Client = pickle.loads(context.state[_TOLD]["client"])
        return kept
    number = _number(context)
    return Client.of(number, task.partition.rows[number], task.seed)


def _number(context: Context) -> int:
    return int(context.node_config["partition-id"])


def _letter(**told: Any) -> RecordDict:
    return RecordDict({_TOLD: ConfigRecord(told)})


def _told(letter: Letter) -> Any:
    return letter.content[_TOLD]
