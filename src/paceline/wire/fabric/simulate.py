"""`simulate`: flows over a fabric under a policy, packet by packet."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.engine import native
from paceline.graph.graph import Int64
from paceline.wire.errors import WireError
from paceline.wire.fabric.completions import Completions, Counts
from paceline.wire.fabric.fabric import Fabric, Flow
from paceline.wire.fabric.policy import Policy
from paceline.wire.fabric.reference import Simulation
from paceline.wire.fabric.reference_packets import of_chance

MINUTE_NS = 60_000_000_000
MOST_PACKETS = 2**31 - 1  # of one flow


def simulate(
    fabric: Fabric,
    flows: Sequence[Flow],
    policy: Policy,
    *,
    until_ns: int = MINUTE_NS,
    reference: bool = False,
) -> Completions:
    """When each flow ends, by the native core where it was built. The same inputs give the same
    result, event for event. It stops with the last flow, or at `until_ns`."""
    _require(fabric, flows)
    core = None if reference else native()
    if core is None:
        return Simulation(fabric, flows, policy).run(until_ns)
    columns = _columns(fabric, flows)
    made = core.simulate_packets(
        core.packet_fabric(*_fabric(fabric)),
        core.packet_policy(*_policy(policy)),
        core.packet_flows(*columns),
        until_ns,
    )
    return _completions(columns[4], made)


def needed_packets(fabric: Fabric, flow: Flow) -> int:
    """Packets without which a flow under a loss budget does not end."""
    packets = -(-flow.size_bytes // fabric.payload_bytes)
    return packets - int(flow.loss_budget * packets)


def _require(fabric: Fabric, flows: Sequence[Flow]) -> None:
    if not flows:
        raise WireError("no flows were given; give at least one")
    furthest = max(max(flow.src, flow.dst) for flow in flows)
    if furthest >= fabric.hosts:
        raise WireError(f"a flow names host {furthest}; the fabric has 0 to {fabric.hosts - 1}")
    largest = max(flow.size_bytes for flow in flows)
    if largest > MOST_PACKETS * fabric.payload_bytes:
        raise WireError(f"a flow of {largest} bytes has too many packets; split it")


def _columns(fabric: Fabric, flows: Sequence[Flow]) -> tuple[Any, ...]:
    kinds = (np.int32, np.int32, np.int32, np.int64, np.int64, np.int32, np.int64)
    rows = [
        (f.src, f.dst, f.priority, f.size_bytes, f.start_ns, needed_packets(fabric, f),
         of_chance(f.important))
        for f in flows
    ]  # fmt: skip
    return tuple(np.array(column, kind) for column, kind in zip(zip(*rows), kinds))


def _fabric(f: Fabric) -> tuple[int, ...]:
    return (
        f.leaves, f.hosts_per_leaf, f.spines, f.host_bits_per_s, f.spine_bits_per_s, f.hop_ns,
        f.rtt_ns, f.buffer_bytes, f.shared_bytes, f.packet_bytes, of_chance(f.loss),
    )  # fmt: skip


def _policy(p: Policy) -> tuple[float, ...]:
    return (
        p.transport.value, p.routing.value, p.mark_bytes, p.drop_bytes, p.window_packets, p.rto_ns,
        p.first_rate, p.increase, p.feedback_packets, p.seed,
    )  # fmt: skip


def _completions(start_ns: Int64, made: tuple[Any, ...]) -> Completions:
    end_ns, missing, sent_packets, peak_bytes, queue_byte_ns, counted = made
    events, sent, arrived, minor, important, control, marked, now_ns = counted
    under_way = sent - arrived - minor - important - control
    counts = Counts(events, sent, arrived, minor, important, control, marked, under_way, now_ns)
    return Completions(start_ns, end_ns, missing, sent_packets, peak_bytes, queue_byte_ns, counts)
