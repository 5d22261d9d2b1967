"""A packet-level simulator: leaves, spines, queues and the transports that share them."""

from paceline.wire.fabric.completions import Completions, Counts
from paceline.wire.fabric.exchange import EqualExchange, Links, exchange_ns
from paceline.wire.fabric.fabric import Fabric, Flow
from paceline.wire.fabric.policy import (
    Policy,
    Routing,
    Transport,
    bounded,
    dctcp,
    pfabric,
    reno,
)
from paceline.wire.fabric.simulate import needed_packets, simulate
from paceline.wire.fabric.workloads import Tolerance, Training, incast, training, web

__all__ = [
    "Completions",
    "Counts",
    "EqualExchange",
    "Fabric",
    "Flow",
    "Links",
    "Policy",
    "Routing",
    "Tolerance",
    "Training",
    "Transport",
    "bounded",
    "dctcp",
    "exchange_ns",
    "incast",
    "needed_packets",
    "pfabric",
    "reno",
    "simulate",
    "training",
    "web",
]
