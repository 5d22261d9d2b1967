"""Layout -> the commands that build it. Pure: tests read them without root.

Each node is a network namespace that routes; each wire a veth pair with an HTB class and a
byte-counted FIFO at both ends. One batch makes namespaces and wires, then one script a node
configures it, so that four hosts stand in a fraction of a second.
"""

from dataclasses import dataclass

from paceline.cluster.tcp import FRAME_BYTES, burst_bytes
from paceline.lab import switching
from paceline.lab.layout import End, Layout


@dataclass(frozen=True)
class Script:
    """A shell script, to be run in one namespace (or, without one, where the user is)."""

    text: str
    namespace: str | None = None


def setup(layout: Layout) -> Script:
    """Makes every namespace and every wire."""
    lines = [f"netns add {layout.namespace(n)}" for n in range(len(layout.nodes))]
    for number, wire in enumerate(layout.wires):
        near, far = (
            (device(layout, end.node, number), layout.namespace(end.node))
            for end in (wire.a, wire.b)
        )
        lines.append(
            f"link add {near[0]} netns {near[1]} type veth peer name {far[0]} netns {far[1]}"
        )
    return Script(f"set -e\n{batch('ip', lines)}")


def configure(layout: Layout) -> tuple[Script, ...]:
    """One script a node: addresses, routes, rates, loss, TCP settings."""
    return tuple(configure_node(layout, node) for node in range(len(layout.nodes)))


def configure_node(layout: Layout, node: int) -> Script:
    parts = (
        "set -e",
        settings(layout),
        batch("ip", interfaces(layout, node) + routes(layout, node)),
        batch("tc", shaping(layout, node)),
        switching.attach(layout, node),
        losses(layout, node),
    )
    return Script("\n".join(part for part in parts if part), layout.namespace(node))


def teardown(namespaces: list[str]) -> Script:
    """Removes namespaces, and with them the interfaces inside."""
    return Script(batch("ip", [f"netns del {name}" for name in namespaces], force=True))


def settings(layout: Layout) -> str:
    """Kernel settings of one namespace; writing them fails where the kernel refuses."""
    wanted = {
        "ip_forward": 1,
        "fib_multipath_hash_policy": 1,  # equal paths are chosen by connection
        "conf/all/send_redirects": 0,
        "conf/default/send_redirects": 0,
        "tcp_congestion_control": layout.stack.congestion,
        "tcp_no_metrics_save": 1,  # one run must not teach the next its threshold
    }
    return "\n".join(f"echo {v} > /proc/sys/net/ipv4/{k}" for k, v in wanted.items())


def interfaces(layout: Layout, node: int) -> list[str]:
    segs = layout.stack.gso_max_segs
    lines = ["link set lo up"]
    for port in range(len(layout.ports[node])):
        size = f"gso_max_segs {segs} gso_max_size {segs * FRAME_BYTES}"
        lines.append(f"link set eth{port} up {size}")
        lines.append(f"addr add {layout.address(node)}/32 dev eth{port}")
    return lines


def routes(layout: Layout, node: int) -> list[str]:
    """A route to every other node over its nearest neighbours; all equal ones share the load."""
    lines = []
    for target in range(len(layout.nodes)):
        hops = layout.hops[target]
        if target == node or hops[node] < 0:
            continue
        nearer = [
            f"via {layout.address(far.node)} dev eth{port} onlink"
            for port, (_, _, far) in enumerate(layout.ports[node])
            if hops[far.node] == hops[node] - 1
        ]
        way = nearer[0] if len(nearer) == 1 else "".join(f" nexthop {hop}" for hop in nearer)
        options = f"src {layout.address(node)} rto_min {layout.stack.rto_min_ms}ms"
        lines.append(f"route add {layout.address(target)}/32 {options} {way}")
    return lines


def shaping(layout: Layout, node: int) -> list[str]:
    lines = []
    for port, (_, end, _) in enumerate(layout.ports[node]):
        if switching.switches(layout, node):
            lines += switching.classes(layout, port, end)
            continue
        burst = burst_bytes(end.bits_per_s, layout.stack.gso_max_segs)
        rate = f"rate {end.bits_per_s}bit ceil {end.bits_per_s}bit"
        lines += [
            f"qdisc add dev eth{port} root handle 1: htb default 1",
            f"class add dev eth{port} parent 1: classid 1:1 htb {rate} "
            f"burst {burst} cburst {burst} quantum {FRAME_BYTES * 4}",
            f"qdisc add dev eth{port} parent 1:1 handle 10: bfifo limit {end.queue_bytes}",
        ]
    return lines


def losses(layout: Layout, node: int) -> str:
    """Loss is made where packets arrive, after the rate was paid for."""
    burst_ms = layout.stack.loss_burst_ms
    rules = [
        rule
        for port, (_, _, far) in enumerate(layout.ports[node])
        if far.loss > 0
        for rule in (_in_bursts(port, far, burst_ms) if burst_ms else [_at_random(port, far.loss)])
    ]
    if not rules:
        return ""
    bursts = (
        f"set burst {{ type ifname; flags dynamic, timeout; timeout {burst_ms}ms; size 4096; }}"
    )
    chain = ["type filter hook prerouting priority raw", *rules]
    table = ["table ip paceline {", *([bursts] if burst_ms else []), "chain loss {", *chain]
    return "\n".join(["nft -f - <<'END'", *table, "}", "}", "END"])


def _at_random(port: int, loss: float) -> str:
    return f'iifname "eth{port}" numgen random mod 1000000 < {round(loss * 1e6)} counter drop'


def _in_bursts(port: int, far: End, burst_ms: int) -> list[str]:
    """A packet drawn at random begins a burst, in which all are lost. Of a link that is full, they
    are the share that was asked for; of one that is not, fewer."""
    in_burst = 1 + far.bits_per_s / 8 / FRAME_BYTES * burst_ms / 1e3
    begins = far.loss / (1 - far.loss) / in_burst
    return [
        f'iifname "eth{port}" iifname @burst counter drop',
        f'iifname "eth{port}" numgen random mod 1000000 < {max(1, round(begins * 1e6))} '
        "add @burst { iifname } counter drop",
    ]


def device(layout: Layout, node: int, wire: int) -> str:
    """The interface by which a node holds a wire."""
    numbers = [number for number, _, _ in layout.ports[node]]
    return f"eth{numbers.index(wire)}"


def batch(tool: str, lines: list[str], *, force: bool = False) -> str:
    if not lines:
        return ""
    flag = "-force " if force else ""
    return "\n".join([f"{tool} {flag}-batch - <<'END'", *lines, "END"])
