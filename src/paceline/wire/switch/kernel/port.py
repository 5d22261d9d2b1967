"""`SwitchPort`: a port of a kernel switch, and how its programs come to be there."""

from dataclasses import dataclass

from paceline.wire.switch.kernel import bpf
from paceline.wire.switch.kernel.assembler import assembled
from paceline.wire.switch.kernel.layout import first_value
from paceline.wire.switch.kernel.netlink import Hook, attach
from paceline.wire.switch.kernel.programs import spray_program, switch_program
from paceline.wire.switch.rule import Rule


@dataclass(frozen=True)
class SwitchPort:
    """One port: its device, the name of its map, its rule; whether what arrives is sprayed."""

    device: str
    name: str
    rule: Rule
    spray: bool = False


def attach_switch(port: SwitchPort) -> None:
    made = bpf.make_map(port.name, first_value(port.rule))
    leaving = bpf.load_program(assembled(switch_program(port.rule, made)))
    attach(port.device, Hook.EGRESS, leaving, "paceline-switch")
    if port.spray:
        arriving = bpf.load_program(assembled(spray_program(made)))
        attach(port.device, Hook.INGRESS, arriving, "paceline-spray")
