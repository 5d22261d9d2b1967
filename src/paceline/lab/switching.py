"""The kernel's switch at nodes without workers: its priority classes, and what loads its program.

Pure, like `commands`: text that a namespace's shell runs.
"""

import json
import shlex
import sys
from dataclasses import asdict

from paceline.cluster.tcp import FRAME_BYTES, burst_bytes
from paceline.lab.layout import End, Layout
from paceline.wire.switch import PRIORITIES, Rule
from paceline.wire.switch.kernel import FIRST_CLASS, SwitchPort, map_name

LEAST_BITS_PER_S = 8_000
"""A class's own rate, as little as `tc` resolves: all else it borrows, in order of priority."""


def switches(layout: Layout, node: int) -> bool:
    return layout.switch is not None and not layout.nodes[node].workers


def rule(layout: Layout, end: End) -> Rule:
    """What a port does with packets."""
    assert layout.switch is not None
    return Rule.graded(end.bits_per_s, end.queue_bytes, layout.switch.drop, layout.switch.mark)


def classes(layout: Layout, port: int, end: End) -> list[str]:
    """Lines for `tc`. Class numbers are hexadecimal there; the program names them by number."""
    burst = burst_bytes(end.bits_per_s, layout.stack.gso_max_segs)
    shape = f"ceil {end.bits_per_s}bit burst {burst} cburst {burst} quantum {FRAME_BYTES * 4}"
    device = f"dev eth{port}"
    last = FIRST_CLASS + PRIORITIES - 1
    lines = [
        f"qdisc add {device} root handle 1: htb default {last:x}",
        f"class add {device} parent 1: classid 1:1 htb rate {end.bits_per_s}bit {shape}",
    ]
    for priority in range(PRIORITIES):
        number = f"{FIRST_CLASS + priority:x}"
        lines += [
            f"class add {device} parent 1:1 classid 1:{number} htb rate {LEAST_BITS_PER_S}bit "
            f"{shape} prio {priority}",
            f"qdisc add {device} parent 1:{number} handle {number}: "
            f"bfifo limit {end.queue_bytes + FRAME_BYTES}",
        ]
    return [*lines, f"qdisc add {device} clsact"]


def attach(layout: Layout, node: int) -> str:
    """The shell's words that load the program of every port."""
    if not switches(layout, node):
        return ""
    name = layout.nodes[node].name
    ports = [
        SwitchPort(
            f"eth{port}",
            map_name(layout.name, name, f"eth{port}"),
            rule(layout, end),
            bool(layout.switch and layout.switch.spray),
        )
        for port, (_, end, _) in enumerate(layout.ports[node])
    ]
    load = f"{shlex.quote(sys.executable)} -m paceline.wire.switch.kernel.attach"
    return "\n".join([f"{load} <<'END'", json.dumps([asdict(port) for port in ports]), "END"])
