"""The switch in the kernel: a tc-bpf program over strict-priority HTB classes."""

from paceline.wire.switch.kernel.counts import Cell, counts, map_name
from paceline.wire.switch.kernel.port import SwitchPort, attach_switch
from paceline.wire.switch.kernel.programs import FIRST_CLASS, spray_program, switch_program

__all__ = [
    "FIRST_CLASS",
    "Cell",
    "SwitchPort",
    "attach_switch",
    "counts",
    "map_name",
    "spray_program",
    "switch_program",
]
