"""A transport for gradients that may lose a bounded share of them, and what helps it: importance,
repair, and a ledger of what was lost."""

from paceline.wire.endpoint import Address, Endpoint, JobKey
from paceline.wire.errors import PeerLost, ReplicaError, WireError
from paceline.wire.group import Bounds, Layers, WireGroup
from paceline.wire.importance import Importance, Marks
from paceline.wire.ledger import Ledger
from paceline.wire.orders import Arrived, Orders, Receive, Send, Transfer, TransferPhase
from paceline.wire.replicas import prove_equal
from paceline.wire.servers import PushPullWorker, Server
from paceline.wire.settings import Patience, Tuning

__all__ = [
    "Address",
    "Arrived",
    "Bounds",
    "Endpoint",
    "Importance",
    "JobKey",
    "Layers",
    "Ledger",
    "Marks",
    "Orders",
    "Patience",
    "PeerLost",
    "PushPullWorker",
    "Receive",
    "ReplicaError",
    "Send",
    "Server",
    "Transfer",
    "TransferPhase",
    "Tuning",
    "WireError",
    "WireGroup",
    "prove_equal",
]
