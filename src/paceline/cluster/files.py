"""Clusters in YAML: read strictly, written in full, changed by dotted paths.

name: office
hosts: {count: 2, device: epyc-2c}          # or a list of such entries, each with its own `name`
link: ethernet-1g                           # or {preset: ethernet-1g, rate: 500Mbps, ...}

hosts: {count: 16, system: dgx-h100}        # a whole host by name; its link is the cluster's too
topology: {kind: leaf-spine, hosts_per_leaf: 2, oversubscription: 2}
transport: {efficiency: 0.957, congestion: reno}
switch: {drop: 0.25, mark: 0.2, spray: true}          # by priority and importance; or left out
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

import yaml

from paceline.cluster import quantities as q
from paceline.cluster.cluster import Cluster, Device, Host, Link, Transport
from paceline.cluster.presets import preset
from paceline.cluster.quantities import ClusterError
from paceline.cluster.switch import Switch
from paceline.cluster.topologies import TOPOLOGIES, Custom, Topology
from paceline.graph.kinds import DeviceKind, DType, Vendor

_CLUSTER = ("name", "hosts", "link", "topology", "transport", "switch")
_LINK = ("preset", "rate", "up", "down", "latency", "background", "background_up",
         "background_down", "loss", "buffer", "source")  # fmt: skip
MOST = 1_000_000
"""Larger counts are mistakes: each host is an object, so they would only fill the memory."""

_HOST = ("name", "count", "system", "device", "devices", "fabric", "nics", "link", "cpus")
_DEVICE = ("preset", "name", "kind", "memory", "memory_rate", "units", "clock", "flops",
           "cache", "power", "process", "link", "vendor", "source", "unmeasured")  # fmt: skip


def load(path: str | Path) -> Cluster:
    """The cluster in a YAML file."""
    try:
        return parse(Path(path).read_text())
    except OSError as error:
        raise ClusterError(f"cannot read cluster file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ClusterError(f"cluster file {path} is no text: {error}") from error


def parse(text: str) -> Cluster:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ClusterError(f"the cluster is not YAML: {error}") from error
    return from_document(document)


def dump(cluster: Cluster) -> str:
    """YAML that `parse` reads back as an equal cluster."""
    return yaml.safe_dump(to_document(cluster), sort_keys=False)


def from_document(document: Any) -> Cluster:
    """A cluster from plain dicts and lists, as YAML or JSON gives them."""
    given = _known(document, _CLUSTER, "a cluster")
    if "hosts" not in given:
        raise ClusterError("a cluster needs `hosts` and `link`; see docs/how/clusters.md")
    entries = given["hosts"]
    if isinstance(entries, int):
        entries = {"count": entries}
    hosts: list[Host] = []
    for entry in entries if isinstance(entries, list) else [entries]:
        hosts += _hosts(entry, len(hosts))
    return Cluster(
        hosts=tuple(hosts),
        link=_between(given, hosts),
        topology=topology(given.get("topology", "star"), [host.name for host in hosts]),
        transport=_plain(Transport, given.get("transport", {}), "transport"),
        name=str(given.get("name", "cluster")),
        switch=_plain(Switch, given["switch"], "switch") if "switch" in given else None,
    )


def link(given: Any, kind: str) -> Link:
    """A link from a preset's name or a mapping; `kind` is networks or fabrics."""
    if isinstance(given, str):
        given = {"preset": given}
    given = _known(given, _LINK, "a link")
    if "preset" in given:
        given = {**preset(kind, given["preset"]), **given}
    for way in ("up", "down"):
        if "rate" not in given and way not in given:
            raise ClusterError(f"a link needs `rate`, or `up` and `down`; found {sorted(given)}")
    rate, noise = given.get("rate"), given.get("background", 0)
    return Link(
        up_bytes_per_s=q.rate(given.get("up", rate), "link.up"),
        down_bytes_per_s=q.rate(given.get("down", rate), "link.down"),
        latency_ns=q.duration(given.get("latency", 0), "link.latency"),
        background_up_bytes_per_s=q.rate(given.get("background_up", noise), "link.background"),
        background_down_bytes_per_s=q.rate(given.get("background_down", noise), "link.background"),
        loss=_number(given.get("loss", 0.0), "link.loss"),
        buffer_bytes=q.size(given.get("buffer", 0), "link.buffer"),
        source=str(given.get("source", "")),
    )


def device(given: Any) -> Device:
    """A device from a preset's name or a mapping that may change a preset's figures."""
    if isinstance(given, str):
        given = {"preset": given}
    given = _known(given, _DEVICE, "a device")
    name = given.get("name", given.get("preset", "device"))
    if "preset" in given:
        given = {**preset("devices", given["preset"]), **given}
    rates = _known(given.get("flops", {}), [t.name.lower() for t in DType], "flops")
    return Device(
        name=str(name),
        kind=_kind(given.get("kind", "cpu")),
        memory_bytes=q.size(given.get("memory", 0), "device.memory"),
        memory_bytes_per_s=q.rate(given.get("memory_rate", 0), "device.memory_rate"),
        units=_count(given.get("units", 0), "device.units"),
        clock_hz=q.clock(given.get("clock", 0), "device.clock"),
        flops_per_s={DType[k.upper()]: q.arithmetic(v, f"flops.{k}") for k, v in rates.items()},
        cache_bytes=q.size(given.get("cache", 0), "device.cache"),
        watts=_number(given.get("power", 0), "device.power"),
        process_nm=_number(given.get("process", 0), "device.process"),
        link_bytes_per_s=q.rate(given.get("link", 0), "device.link"),
        vendor=_vendor(given.get("vendor", "nvidia")),
        source=str(given.get("source", "")),
        unmeasured=str(given.get("unmeasured", "")),
    )


def topology(given: Any, hosts: list[str]) -> Topology:
    if isinstance(given, str):
        given = {"kind": given}
    if not isinstance(given, Mapping) or given.get("kind", "star") not in TOPOLOGIES:
        raise ClusterError(f"topology is {given!r}; known kinds: {', '.join(TOPOLOGIES)}")
    settings = {name: value for name, value in given.items() if name != "kind"}
    made = TOPOLOGIES[given.get("kind", "star")]
    if made is Custom:
        return _custom(settings, hosts)
    if "dims" in settings:
        settings["dims"] = tuple(settings["dims"])
    found: Topology = _plain(made, settings, f"topology {made.kind}")
    return found


def to_document(cluster: Cluster) -> dict[str, Any]:
    """Plain dicts and lists, complete: presets are written out as the figures they stand for."""
    return {
        "name": cluster.name,
        "hosts": [_host_document(host) for host in cluster.hosts],
        "link": _link_document(cluster.link),
        "topology": _topology_document(cluster),
        "transport": asdict(cluster.transport),
        **({"switch": asdict(cluster.switch)} if cluster.switch else {}),
    }


def _between(given: Mapping[str, Any], hosts: list[Host]) -> Link:
    """The cluster's link, or that of its hosts' system."""
    if "link" in given:
        return link(given["link"], "networks")
    own = hosts[0].link if hosts else None
    if own is None:
        raise ClusterError("a cluster needs `hosts` and `link`; see docs/how/clusters.md")
    return own


def _hosts(entry: Any, have: int) -> list[Host]:
    given = _known(entry, _HOST, "a host")
    if "system" in given:
        given = {**preset("systems", given["system"]), **given}
    count = _count(given.get("count", 1), "hosts.count")
    first = str(given.get("name", f"h{have}"))
    names = [first] if count == 1 else [f"{given.get('name', 'h')}{have + i}" for i in range(count)]
    fabric, own = given.get("fabric"), given.get("link")
    settings: dict[str, Any] = {
        "device": device(given.get("device", "epyc-2c")),
        "devices": _count(given.get("devices", 1), "hosts.devices"),
        "fabric": None if fabric is None else link(fabric, "fabrics"),
        "nics": _count(given.get("nics", 1), "hosts.nics"),
        "link": None if own is None else link(own, "networks"),
        "cpus": _number(given.get("cpus", 0), "hosts.cpus"),
    }
    return [Host(name=name, **settings) for name in names]


def _custom(settings: Mapping[str, Any], hosts: list[str]) -> Custom:
    """Cables `{ends: [a, s1], rate: 10Gbps}`; a name that is no host is a switch."""
    _known(settings, ("cables",), "topology custom")
    nodes = {name: i for i, name in enumerate(hosts)}
    edges = []
    for cable in settings.get("cables", []):
        given = dict(cable)
        ends = given.pop("ends", ())
        if len(ends) != 2:
            raise ClusterError(f"cable {cable} needs `ends` with two names")
        made = link(given, "networks")
        a, b = (nodes.setdefault(str(end), len(nodes)) for end in ends)
        edges.append((a, b, made.up_bytes_per_s, made.down_bytes_per_s, made.latency_ns))
    return Custom(tuple(edges))


def _host_document(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = {"name": host.name, "device": _device_document(host.device)}
    found |= {"devices": host.devices, "nics": host.nics, "cpus": host.cpus}
    if host.fabric is not None:
        found["fabric"] = _link_document(host.fabric)
    if host.link is not None:
        found["link"] = _link_document(host.link)
    return found


def _device_document(made: Device) -> dict[str, Any]:
    return {
        "name": made.name,
        "kind": made.kind.name.lower(),
        "memory": q.show_size(made.memory_bytes),
        "memory_rate": q.show_rate(made.memory_bytes_per_s),
        "units": made.units,
        "clock": f"{made.clock_hz!r}Hz",
        "flops": {t.name.lower(): f"{v!r}FLOPS" for t, v in made.flops_per_s.items()},
        "cache": q.show_size(int(made.cache_bytes)),
        "power": made.watts,
        "process": made.process_nm,
        "link": q.show_rate(made.link_bytes_per_s) if made.link_bytes_per_s else 0,
        "vendor": made.vendor.value,
        "source": made.source,
        "unmeasured": made.unmeasured,
    }


def _link_document(made: Link) -> dict[str, Any]:
    up, down = q.show_rate(made.up_bytes_per_s), q.show_rate(made.down_bytes_per_s)
    return {
        **({"rate": up} if up == down else {"up": up, "down": down}),
        "latency": q.show_duration(made.latency_ns),
        "background_up": q.show_rate(made.background_up_bytes_per_s),
        "background_down": q.show_rate(made.background_down_bytes_per_s),
        "loss": made.loss,
        "buffer": q.show_size(made.buffer_bytes),
        "source": made.source,
    }


def _topology_document(cluster: Cluster) -> dict[str, Any]:
    made = cluster.topology
    if isinstance(made, Custom):
        names = [host.name for host in cluster.hosts]
        return {
            "kind": made.kind,
            "cables": [
                {
                    "ends": [names[n] if n < len(names) else f"switch {n}" for n in (a, b)],
                    "up": q.show_rate(ab),
                    "down": q.show_rate(ba),
                    "latency": q.show_duration(latency),
                }
                for a, b, ab, ba, latency in made.edges
            ],
        }
    settings = {f.name: getattr(made, f.name) for f in fields(made)}
    return {"kind": made.kind} | {
        n: list(v) if isinstance(v, tuple) else v for n, v in settings.items()
    }


def _known(given: Any, allowed: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ClusterError(f"{what} is {given!r}; give a mapping with {', '.join(allowed)}")
    strange = [name for name in given if name not in allowed]
    if strange:
        raise ClusterError(f"{what} has {strange[0]!r}; allowed: {', '.join(allowed)}")
    return given


def _plain(made: type[Topology] | type[Transport] | type[Switch], given: Any, what: str) -> Any:
    """A dataclass of plain numbers and texts from a mapping."""
    known = {f.name: f.default for f in fields(made)}
    for name, value in _known(given, tuple(known), what).items():
        if known[name] is not MISSING and not _alike(value, known[name]):
            raise ClusterError(f"{what}.{name} is {value!r}; give one like {known[name]!r}")
    return made(**given)


def _alike(value: Any, default: Any) -> bool:
    if isinstance(default, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is type(default)


def _kind(text: Any) -> DeviceKind:
    known = [kind.name.lower() for kind in DeviceKind]
    if text not in known:
        raise ClusterError(f"device.kind is {text!r}; known: {', '.join(known)}")
    return DeviceKind[text.upper()]


def _vendor(text: Any) -> Vendor:
    known = [vendor.value for vendor in Vendor]
    if text not in known:
        raise ClusterError(f"device.vendor is {text!r}; known: {', '.join(known)}")
    return Vendor(text)


def _count(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ClusterError(f"{what} is {value!r}; give a whole number")
    if value > MOST:
        raise ClusterError(f"{what} is {value}; the most that is read is {MOST:,}")
    return value


def _number(value: Any, what: str) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
        raise ClusterError(f"{what} is {value!r}; give a number")
    return float(value)
