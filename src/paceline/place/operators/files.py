"""The published JSON format: problems in, splits in and out.

Problem: maxSizePerFPGA, maxFPGAs, maxCPUs, nodes [{id, supportedOnFpga, cpuLatency, fpgaLatency,
isBackwardNode, colorClass?, size?, name?}], edges [{sourceId, destId, cost}].
Split: maxLoad, fpgas [{load, nodes}], cpus [{load, nodes}].
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from paceline.errors import FileError
from paceline.place.operators.problem import Floats, Ints, PlacementError, Problem, check
from paceline.place.operators.split import PlacedNodes, Split

COST_TOLERANCE = 1e-6
"""Edges of one producer may differ in cost by so much; the format means them to be equal."""


class _Node(msgspec.Struct):
    id: int
    supportedOnFpga: bool | int
    cpuLatency: float
    fpgaLatency: float
    isBackwardNode: bool | int = False
    colorClass: int | None = None
    size: float = 0.0
    name: str | int = ""


class _Edge(msgspec.Struct):
    sourceId: int
    destId: int
    cost: float = 0.0


class _File(msgspec.Struct):
    maxFPGAs: int
    nodes: list[_Node]
    edges: list[_Edge]
    maxCPUs: int = 0
    maxSizePerFPGA: float = float("inf")


class _Machine(msgspec.Struct):
    nodes: list[int]
    load: float = 0.0


class _SplitFile(msgspec.Struct):
    fpgas: list[_Machine]
    cpus: list[_Machine] = []
    maxLoad: float = 0.0


def read_problem(path: Path) -> Problem:
    """A problem file, checked."""
    return problem_of(_decode(path, _File))


def read_split(path: Path, problem: Problem) -> Split:
    """A split file, with rows of `problem`; nodes it does not name follow their colour."""
    file = _decode(path, _SplitFile)
    row_of = {int(node): row for row, node in enumerate(problem.ids)}
    machines = [(m, False) for m in file.fpgas] + [(m, True) for m in file.cpus]
    device = np.full(len(problem), -1, np.int64)
    for index, (machine, _) in enumerate(machines):
        for node in machine.nodes:
            if node not in row_of:
                raise PlacementError(f"{path}: node {node} is not in the problem")
            device[row_of[node]] = index
    device = _follow_colour(problem, device)
    return Split(
        tuple(
            PlacedNodes(on_cpu, np.flatnonzero(device == index))
            for index, (_, on_cpu) in enumerate(machines)
            if (device == index).any()
        )
    )


def split_json(problem: Problem, split: Split, max_load: float) -> dict[str, Any]:
    """A split in the published format; a part run on r devices says so in `replicas`."""
    found: dict[str, Any] = {"maxLoad": max_load, "fpgas": [], "cpus": []}
    for part, load in zip(split.parts, split.loads(problem)):
        machine: dict[str, Any] = {"load": load, "nodes": problem.ids[part.rows].tolist()}
        if part.replicas > 1:
            machine["replicas"] = part.replicas
        found["cpus" if part.on_cpu else "fpgas"].append(machine)
    return found


def problem_json(problem: Problem) -> dict[str, Any]:
    """A problem in the published format."""
    nodes = [
        {
            "id": int(problem.ids[row]),
            "supportedOnFpga": bool(problem.supported[row]),
            "cpuLatency": float(problem.cpu_time[row]),
            "fpgaLatency": float(problem.accelerator_time[row]),
            "isBackwardNode": bool(problem.backward[row]),
            "colorClass": int(problem.colour[row]),
            "size": float(problem.size[row]),
            "name": problem.names[row] if problem.names else "",
        }
        for row in range(len(problem))
    ]
    edges = [
        {"sourceId": int(problem.ids[s]), "destId": int(problem.ids[t]), "cost": float(cost)}
        for s, t, cost in zip(problem.source, problem.target, problem.cost[problem.source])
    ]
    devices = {"maxFPGAs": problem.accelerators, "maxCPUs": problem.cpus}
    limit = {"maxSizePerFPGA": problem.memory} if np.isfinite(problem.memory) else {}
    return {**devices, **limit, "nodes": nodes, "edges": edges}


def problem_of(file: _File) -> Problem:
    """Columns of a decoded file, checked."""
    nodes, edges = file.nodes, file.edges
    ids = np.array([n.id for n in nodes], np.int64)
    row_of = {n.id: row for row, n in enumerate(nodes)}
    if len(row_of) < len(nodes):
        twice = next(int(i) for i, times in zip(*np.unique(ids, return_counts=True)) if times > 1)
        raise PlacementError(f"two nodes have the id {twice}; ids must differ")
    source = _rows(row_of, [e.sourceId for e in edges])
    target = _rows(row_of, [e.destId for e in edges])
    return check(
        Problem(
            ids=ids,
            supported=np.array([bool(n.supportedOnFpga) for n in nodes], np.bool_),
            cpu_time=np.array([n.cpuLatency for n in nodes], np.float64),
            accelerator_time=np.array([n.fpgaLatency for n in nodes], np.float64),
            size=np.array([n.size for n in nodes], np.float64),
            backward=np.array([bool(n.isBackwardNode) for n in nodes], np.bool_),
            colour=_dense([("own", n.id) if n.colorClass is None else n.colorClass for n in nodes]),
            cost=_costs(ids, source, np.array([e.cost for e in edges], np.float64)),
            source=source,
            target=target,
            accelerators=file.maxFPGAs,
            cpus=file.maxCPUs,
            memory=file.maxSizePerFPGA,
            names=tuple(str(n.name) for n in nodes),
        )
    )


def _decode(path: Path, kind: Any) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise FileError(
            f"{path} is not in the published placement format: {error}. See docs/place.md."
        ) from error


def _rows(row_of: dict[int, int], ids: list[int]) -> Ints:
    unknown = next((i for i in ids if i not in row_of), None)
    if unknown is not None:
        raise PlacementError(f"an edge names node {unknown}, which is not among the nodes")
    return np.array([row_of[i] for i in ids], np.int64)


def _dense(keys: list[Any]) -> Ints:
    number: dict[Any, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], np.int64)


def _costs(ids: Ints, source: Ints, cost: Floats) -> Floats:
    """One cost a producer, from the costs of its edges."""
    if not np.isfinite(cost).all():
        edge = int(np.flatnonzero(~np.isfinite(cost))[0])
        raise PlacementError(
            f"an edge of node {ids[source[edge]]} costs {cost[edge]}; it must be a finite number"
        )
    high, low = np.full(len(ids), -np.inf), np.full(len(ids), np.inf)
    np.maximum.at(high, source, cost)
    np.minimum.at(low, source, cost)
    wrong = np.flatnonzero(high - low > COST_TOLERANCE)
    if len(wrong):
        row = wrong[0]
        raise PlacementError(
            f"edges of node {ids[row]} cost {low[row]} and {high[row]}; one result has one cost, "
            "whoever reads it. Give all edges of a node the same cost."
        )
    return np.where(np.isfinite(high), high, 0.0)


def _follow_colour(problem: Problem, device: Ints) -> Ints:
    placed = np.flatnonzero(device >= 0)
    of_colour = np.full(int(problem.colour.max()) + 1, -1, np.int64)
    of_colour[problem.colour[placed]] = device[placed]
    result = np.where(device >= 0, device, of_colour[problem.colour])
    if (result < 0).any():
        row = int(np.flatnonzero(result < 0)[0])
        raise PlacementError(f"the split does not place {problem.name(row)}")
    return result
