"""Ways to cable hosts, one a file. `TOPOLOGIES` finds each by its name in YAML."""

from paceline.cluster.topologies.custom import Custom
from paceline.cluster.topologies.fat_tree import FatTree
from paceline.cluster.topologies.full_mesh import FullMesh
from paceline.cluster.topologies.leaf_spine import LeafSpine
from paceline.cluster.topologies.rail import Rail
from paceline.cluster.topologies.ring import Ring
from paceline.cluster.topologies.star import Star
from paceline.cluster.topologies.topology import Cable, Port, Topology
from paceline.cluster.topologies.torus import Torus

TOPOLOGIES: dict[str, type[Topology]] = {
    topology.kind: topology
    for topology in (Star, Ring, FullMesh, LeafSpine, FatTree, Rail, Torus, Custom)
}

__all__ = [
    "TOPOLOGIES",
    "Cable",
    "Custom",
    "FatTree",
    "FullMesh",
    "LeafSpine",
    "Port",
    "Rail",
    "Ring",
    "Star",
    "Topology",
    "Torus",
]
