"""How long a network's forward pass takes on a machine, from a few networks measured there.

model = fit(measured)              # twenty networks, each with its calls' times
model.latency_ns(calls)            # of another, by the work of its calls alone
"""

from paceline.cost.network.files import load, save
from paceline.cost.network.fitting import fit
from paceline.cost.network.latency import LatencyModel, MeasuredNetwork, network_flops, utilisation
from paceline.cost.network.terms import CallKind, kind_of

__all__ = [
    "CallKind",
    "LatencyModel",
    "MeasuredNetwork",
    "fit",
    "kind_of",
    "load",
    "network_flops",
    "save",
    "utilisation",
]
