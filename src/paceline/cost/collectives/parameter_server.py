"""Parameter server: workers push gradients to servers that hold a share each, and pull weights.

Each member of the group is a worker; the first `servers` of them also serve (0: all, as BytePS
places them). Push takes W S / (s B) at a server's link, W workers and s servers; pull the same.
"""

from dataclasses import dataclass
from typing import ClassVar

from paceline.cost.collectives.algorithm import Algorithm, Call, Round, messages
from paceline.graph.kinds import Collective


@dataclass(frozen=True)
class ParameterServer(Algorithm):
    name: ClassVar[str] = "parameter-server"
    serves: ClassVar[frozenset[Collective]] = frozenset(
        {Collective.ALL_REDUCE, Collective.PUSH, Collective.PULL}
    )
    servers: int = 0

    def rounds(self, call: Call) -> list[Round]:
        n = call.members
        servers = min(self.servers or n, n)
        pairs = [(worker, server) for worker in range(n) for server in range(servers)
                 if worker != server]  # fmt: skip
        share = call.size_bytes / servers
        push = messages(pairs, share, reduced=True)
        pull = messages([(server, worker) for worker, server in pairs], share)
        return {
            Collective.ALL_REDUCE: [push, pull],
            Collective.PUSH: [push],
            Collective.PULL: [pull],
        }[call.collective]
