"""p2p: a Send moves to where less is sent.

Send(AllGather(x)) becomes AllGather(Send(x)): each rank sends its slice, the receiving group
gathers. ReduceScatter(Send(x)) becomes Send(ReduceScatter(x)): the sending group reduces first.
Either way 1/ranks of the bytes cross between the groups.
"""

from paceline.weave import ops
from paceline.weave.program import Program, Statement
from paceline.weave.rules import WeaveError
from paceline.weave.transforms.draft import Draft
from paceline.weave.transforms.refusal import Refusal, attempt, loose


def p2p(program: Program, send: str) -> Program | Refusal:
    """Move the Send `send`. Refused: not a Send; neither a gathered operand nor a ReduceScatter
    as its only reader; anything already fused."""
    return attempt("p2p", lambda: _p2p(program, program[send]))


def _p2p(program: Program, send: Statement) -> Program:
    if not isinstance(send.op, ops.Send):
        raise WeaveError(f"{send.name} is {send.op.word}; only a Send can be moved")
    loose(program, send.name)
    operand, readers = program[send.args[0]], program.readers(send.name)
    if isinstance(operand.op, ops.AllGather):
        loose(program, operand.name)
        return _before_gather(program, send, operand)
    if len(readers) == 1 and isinstance(readers[0].op, ops.ReduceScatter):
        loose(program, readers[0].name)
        if send.name in program.outputs:
            raise WeaveError(f"{send.name} is also returned; the ReduceScatter cannot go first")
        return _after_scatter(program, send, readers[0])
    word = ops.word_of(operand.op)
    raise WeaveError(
        f"{send.name} sends {operand.name} ({word}); needs an AllGather as its operand (reorder "
        "computation before it) or a ReduceScatter as its only reader"
    )


def _before_gather(program: Program, send: Statement, gather: Statement) -> Program:
    draft = Draft(program)
    others = [r for r in program.readers(gather.name) if r.name != send.name]
    for statement in program:
        if statement.name == send.name:
            part = draft.add(send.op, gather.args, f"{send.name}_s", send.line)
            draft.add(gather.op, (part,), send.name, send.line)
        elif statement.name != gather.name or others or gather.name in program.outputs:
            draft.keep(statement)
    return draft.finish()


def _after_scatter(program: Program, send: Statement, scatter: Statement) -> Program:
    draft = Draft(program)
    for statement in program:
        if statement.name == send.name:
            part = draft.add(scatter.op, send.args, f"{scatter.name}_here", scatter.line)
            draft.add(send.op, (part,), scatter.name, send.line)
        elif statement.name != scatter.name:
            draft.keep(statement)
    return draft.finish()
