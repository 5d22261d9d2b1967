"""The switch: which packets are dropped, marked and served first; in the kernel or user space."""

from paceline.wire.switch.codes import PRIORITIES, Code, code_of, is_markable, tos
from paceline.wire.switch.rule import Rule, Verdict

__all__ = ["PRIORITIES", "Code", "Rule", "Verdict", "code_of", "is_markable", "tos"]
