"""Inference on CPUs: how many instances with how many threads and which batch, and serving by it.

Times of a model are profiled over threads and batch; an exact division of the batch among
instances is found from them; pinned instances are forked and answer over HTTP, and change with the
load.
"""

from paceline.serve.dispatcher import Rules
from paceline.serve.errors import ServeError
from paceline.serve.files import folder
from paceline.serve.knapsack import InstanceShare, divided
from paceline.serve.plan import ServingChoice, ServingPlan, best_plan, plain_choices, priced
from paceline.serve.points import Latency, Point
from paceline.serve.prepared import Prepared, ServeJob, prepared
from paceline.serve.profile import Fingerprint, ServingProfile
from paceline.serve.serving import Address, require_web, serve
from paceline.serve.topology import Topology, topology_here

__all__ = [
    "Address",
    "Fingerprint",
    "InstanceShare",
    "Latency",
    "Point",
    "Prepared",
    "Rules",
    "ServeError",
    "ServeJob",
    "ServingChoice",
    "ServingPlan",
    "ServingProfile",
    "Topology",
    "best_plan",
    "divided",
    "folder",
    "plain_choices",
    "prepared",
    "priced",
    "require_web",
    "serve",
    "topology_here",
]
