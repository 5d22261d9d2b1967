"""Graphs of made-up jobs, one generator a file: for benchmarks, tests and first questions."""

from paceline.graph.synthetic.ring import Ring, folded_ring, ring

__all__ = ["Ring", "folded_ring", "ring"]
