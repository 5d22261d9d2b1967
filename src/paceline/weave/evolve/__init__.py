"""Evolution of schedules and kernel settings: lists of edits, three gates, ablation.

After GEVO (Liou et al. 2020), with edits on the program and on the loops of its generated kernels
instead of on LLVM's intermediate code.
"""

from paceline.weave.evolve.edits import Edit, Genome, Rewrite, Setting, Variant, variant
from paceline.weave.evolve.judge import Judge, Judged, LiveJudge
from paceline.weave.evolve.report import Evolved
from paceline.weave.evolve.search import EvolutionSettings, EvolutionTask, evolve

__all__ = [
    "Edit",
    "EvolutionSettings",
    "EvolutionTask",
    "Evolved",
    "Genome",
    "Judge",
    "Judged",
    "LiveJudge",
    "Rewrite",
    "Setting",
    "Variant",
    "evolve",
    "variant",
]
