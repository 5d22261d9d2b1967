"""Gloo between workers that share the cores of one machine, as in the lab."""

from dataclasses import replace

from paceline.cluster.machine import Machine
from paceline.cluster.tcp import BURST_S
from paceline.cost.collectives.choice import GLOO, Library
from paceline.graph.kinds import Basis


def gloo_on(machine: Machine) -> Library:
    """Gloo with the times of a call, of a message and of its stalls that were measured there."""
    return replace(
        GLOO,
        call_ns=machine.call_ns,
        message_ns=machine.message_ns,
        stall_ns=machine.stall_ns,
        burst_s=BURST_S,
        basis=Basis.FITTED,
    )
