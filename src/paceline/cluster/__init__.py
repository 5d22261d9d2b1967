"""What training runs on: devices, links, hosts, and how they are cabled."""

from paceline.cluster.cluster import Cluster, Device, Host, Link, Transport
from paceline.cluster.files import dump, from_document, load, parse, to_document
from paceline.cluster.network import Network, OneWay
from paceline.cluster.quantities import ClusterError
from paceline.cluster.settings import with_settings
from paceline.cluster.switch import Switch
from paceline.cluster.topologies import (
    TOPOLOGIES,
    Custom,
    FatTree,
    FullMesh,
    LeafSpine,
    Rail,
    Ring,
    Star,
    Topology,
    Torus,
)

__all__ = [
    "TOPOLOGIES",
    "Cluster",
    "ClusterError",
    "Custom",
    "Device",
    "FatTree",
    "FullMesh",
    "Host",
    "LeafSpine",
    "Link",
    "Network",
    "OneWay",
    "Rail",
    "Ring",
    "Star",
    "Switch",
    "Topology",
    "Torus",
    "Transport",
    "dump",
    "from_document",
    "load",
    "parse",
    "to_document",
    "with_settings",
]
