"""What recorded shapes, types and grids tell of each op's work.

`worked_of(view)` gives each event its work: device kernels that of the operator which launched
them, operators of a processor their own. `families/` says what an operator's inputs mean, one
family a file; `triton` reads generated kernels, `names` what a kernel's name and grid tell alone.
"""

from paceline.trace.shapes.inputs import Inputs, Tensor
from paceline.trace.shapes.operators import typed, work_of
from paceline.trace.shapes.worked import Worked, worked_of

__all__ = ["Inputs", "Tensor", "Worked", "typed", "work_of", "worked_of"]
