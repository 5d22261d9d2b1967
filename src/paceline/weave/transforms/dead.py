"""dead: drop outputs that nobody wants, and everything that only they needed.

Inputs stay, for they are the caller's buffers.
"""

from dataclasses import replace

from paceline.weave import ops
from paceline.weave.program import Kernel, Program, check
from paceline.weave.rules import WeaveError
from paceline.weave.transforms.refusal import Refusal, attempt


def dead(program: Program, *outputs: str) -> Program | Refusal:
    """Drop these outputs and what is unused. Refused: not an output, the last output, nothing to
    drop, an overlap that would lose a side."""
    return attempt("dead", lambda: _dead(program, outputs))


def without_unused(program: Program) -> Program:
    """The program less every statement that no output needs."""
    needed = set(program.outputs)
    for statement in reversed(program.statements):
        if statement.name in needed:
            needed |= set(statement.args)
    kept = tuple(s for s in program if s.name in needed or isinstance(s.op, ops.Input))
    members = [Kernel(k.name, tuple(m for m in k.members if m in needed)) for k in program.kernels]
    kernels = tuple(k for k in members if k.members)
    return check(replace(program, statements=kept, kernels=kernels))


def _dead(program: Program, outputs: tuple[str, ...]) -> Program:
    for name in outputs:
        if name not in program.outputs:
            shown = ", ".join(program.outputs)
            raise WeaveError(f"{name} is no output; {program.name} returns {shown}")
    left = tuple(n for n in program.outputs if n not in outputs)
    if not left:
        raise WeaveError(f"nothing of {program.name} would be left; keep one output")
    made = without_unused(replace(program, outputs=left))
    if made == program:
        raise WeaveError(f"every statement of {program.name} is needed")
    return made
