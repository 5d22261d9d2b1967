"""Graphs of made-up jobs, one generator a file: for benchmarks, tests and first questions."""

from paceline.graph.synthetic.jumble import jumble
from paceline.graph.synthetic.layered import Layered, layered
from paceline.graph.synthetic.pipeline import Pipeline, pipeline
from paceline.graph.synthetic.ring import Ring, folded_ring, ring
from paceline.graph.synthetic.training import training
from paceline.graph.synthetic.training_job import Parallel, ReplicaExchange, TrainingJob
from paceline.graph.synthetic.training_lanes import MachineKind
from paceline.graph.synthetic.transformer import Transformer, transformer

__all__ = [
    "Layered",
    "MachineKind",
    "Parallel",
    "Pipeline",
    "ReplicaExchange",
    "Ring",
    "TrainingJob",
    "Transformer",
    "folded_ring",
    "jumble",
    "layered",
    "pipeline",
    "ring",
    "training",
    "transformer",
]
