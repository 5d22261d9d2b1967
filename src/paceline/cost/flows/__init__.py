"""The second fidelity of communication: flows on links that share max-min fairly."""

from paceline.cost.flows.coflow import coflow
from paceline.cost.flows.sharing import SharedLinks
from paceline.cost.flows.simulate import Course, Messages, flows_ns, messages_of, simulate
from paceline.cost.flows.table import Flow, FlowTable

__all__ = [
    "Course",
    "Flow",
    "FlowTable",
    "Messages",
    "SharedLinks",
    "coflow",
    "flows_ns",
    "messages_of",
    "simulate",
]
