"""What a price rests on, and how far it may be off."""

from dataclasses import dataclass

from paceline.graph.kinds import Basis

SPREAD = {
    Basis.RECORDED: 0.03,
    Basis.MEASURED: 0.03,
    Basis.FITTED: 0.12,
    Basis.SCALED: 0.12,
    Basis.WALL: 0.13,
    Basis.DATASHEET: 0.36,
    Basis.ARITHMETIC: 0.36,
    Basis.FORECAST: 0.2,
}
"""Typical error by basis, as a share of the price: half the width of a price's interval. These are
mean errors, not quantiles; how often an interval holds the truth was tested for kernels of GPUs
alone, whose classes have figures of their own (`cost.spreads`).

- RECORDED: p10 to p90 of a quiet job's steps around their median.
- MEASURED: the same; what lies between the rows of a table adds 0.8 % on average
  (benchmarks/accuracy/collectives.py), and a fifth at the worst size.
- FITTED: this model on single-node Megatron-LM jobs after five calibration rows, the mean over
  several rules of picking them (benchmarks/accuracy/megatron.py, `other_rules`).
- SCALED: as the authors of Habitat report over six GPUs (11.8 %). Sums of kernel times of two
  models carried from an H100 to an MI300X and back lay within it (benchmarks/accuracy/kernels.py);
  single classes of operators were off by more.
- DATASHEET: the model on the same jobs without calibration (`uncalibrated`).
- ARITHMETIC: as wide as a datasheet's, for too little was measured to say less. In the processor
  time of an MLP with layers of 768 x 768, on a busy machine, thin factors were off by +2 and -36 %
  in two runs, composed layers by -5 and -6 %, circulant blocks by -5 to -12 % with the present
  kernel.
- FORECAST: by class of operator 0.11 to 0.23 on devices left out of the tables
  (benchmarks/accuracy/kernels.py, `left_out`).
- WALL: a convolutional net recorded at 200 Mbit/s and carried to 1 Gbit/s by its wall times (13.4
  %). Where more workers than cores were recorded it was 46 %.
"""


@dataclass(frozen=True)
class Price:
    """A duration with its interval and what it rests on."""

    dur_ns: float
    low_ns: float
    high_ns: float
    basis: Basis
