"""A suite of real trainings, and the report of what they, or any job, make of a machine.

    paceline bench run resnet20 dlrm --batch-sizes 16 64 -o bench

`workloads/` has one training a file, `catalogue` finds them. `sweep` records each at several batch
sizes, `quality` trains each until it is good enough; rows are kept as they come. `lessons` says
what follows from the points in words, `against` sets two reports beside one another.
"""

from paceline.bench.catalogue import chosen, named, names
from paceline.bench.errors import BenchError
from paceline.bench.workload import Domain, Quality, Setup, Spread, Training, Workload

__all__ = [
    "BenchError",
    "Domain",
    "Quality",
    "Setup",
    "Spread",
    "Training",
    "Workload",
    "chosen",
    "named",
    "names",
]
