"""Files of the published format: what they hold, and what is refused with a reason."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.errors import FileError, PacelineError
from paceline.place.operators import (
    Outcome,
    PlacementError,
    place_contiguous,
    place_noncontiguous,
    problem_json,
    read_problem,
    read_split,
    split_json,
)
from paceline.place.operators.synthetic import random_problem


def node(number: int, **fields: Any) -> dict[str, Any]:
    plain = {"supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.0, "isBackwardNode": 0}
    return {"id": number, **plain, "size": 1.0, **fields}


def edge(source: int, target: int, cost: float = 0.5) -> dict[str, Any]:
    return {"sourceId": source, "destId": target, "cost": cost}


def written(folder: Path, **fields: Any) -> Path:
    """Two nodes in a row on two accelerators, with some fields changed."""
    plain = {
        "maxSizePerFPGA": 10.0,
        "maxFPGAs": 2,
        "maxCPUs": 1,
        "nodes": [node(1), node(2)],
        "edges": [edge(1, 2)],
    }
    path = folder / "problem.json"
    path.write_text(json.dumps(plain | fields))
    return path


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"edges": [edge(1, 2), edge(2, 1)]}, "cycle, through node [12], node [12]"),
        ({"edges": [edge(1, 1)]}, "cycle, through node 1"),
        ({"edges": [edge(1, 7)]}, "node 7, which is not among the nodes"),
        (
            {"nodes": [node(1), node(2), node(3)], "edges": [edge(1, 2, 1), edge(1, 3, 2)]},
            "edges of node 1 cost 1.0 and 2.0",
        ),
        ({"maxFPGAs": 0, "maxCPUs": 0}, "no device to place on"),
        ({"maxFPGAs": -1}, "must not be negative"),
        ({"nodes": [node(1), node(1)]}, "two nodes have the id 1"),
        ({"nodes": [], "edges": []}, "no nodes"),
        ({"nodes": [node(1, fpgaLatency=-1.0), node(2)]}, "node 1: fpgaLatency is -1.0"),
        ({"nodes": [node(1, size=-2.0), node(2)]}, "node 1: size is -2.0"),
        ({"edges": [edge(1, 2, -3.0)]}, "node 1: cost of its edges is -3.0"),
        ({"maxSizePerFPGA": -1.0}, "memory of an accelerator is -1.0"),
        ({"nodes": [node(1, isBackwardNode=1), node(2)]}, "backward node 1 to forward node 2"),
    ],
)
def test_a_wrong_problem_is_refused_with_its_reason(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PlacementError, match=reason):
        read_problem(written(tmp_path, **fields))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"nodes": []}', '{"maxFPGAs": 1, "nodes": [{"id": "x"}], "edges": []}'],
)
def test_a_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "foreign.json"
    path.write_text(text)
    with pytest.raises(FileError, match=r"foreign\.json is not in the published"):
        read_problem(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_non_finite_values_are_refused(tmp_path: Path, number: str) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"cpuLatency": 10.0', f'"cpuLatency": {number}'))
    with pytest.raises(PacelineError):
        read_problem(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        read_problem(tmp_path / "none.json")


def test_edges_of_one_producer_may_differ_by_rounding(tmp_path: Path) -> None:
    nodes = [node(1), node(2), node(3)]
    path = written(tmp_path, nodes=nodes, edges=[edge(1, 2, 1.0), edge(1, 3, 1.0 + 5e-7)])
    assert read_problem(path).cost[0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("place", [place_contiguous, place_noncontiguous])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"maxSizePerFPGA": 0.5}, "one group of nodes occupies 1"),
        ({"maxFPGAs": 1, "maxSizePerFPGA": 1.5}, "all nodes occupy 2"),
        ({"nodes": [node(1, supportedOnFpga=False), node(2)]}, "1 groups of nodes are not"),
        ({"maxFPGAs": 0, "maxCPUs": 0}, ""),
    ],
)
def test_impossible_limits_are_explained(
    tmp_path: Path, place: Any, fields: dict[str, Any], reason: str
) -> None:
    path = written(tmp_path, **(fields | {"maxCPUs": 0}))
    if not reason:
        with pytest.raises(PlacementError):
            read_problem(path)
        return
    answer = place(read_problem(path))
    assert answer.outcome is Outcome.INFEASIBLE
    assert answer.split is None
    assert reason in answer.notes[0]


def test_memory_that_only_packing_rules_out_is_infeasible_too(tmp_path: Path) -> None:
    nodes = [node(i, size=2.0) for i in (1, 2, 3)]
    path = written(tmp_path, nodes=nodes, edges=[], maxSizePerFPGA=3.0, maxCPUs=0)
    for place in (place_contiguous, place_noncontiguous):
        answer = place(read_problem(path))
        assert answer.outcome is Outcome.INFEASIBLE
        assert "memory limit" in answer.notes[0]


def test_an_unsupported_node_goes_to_the_cpu(tmp_path: Path) -> None:
    path = written(tmp_path, nodes=[node(1), node(2, supportedOnFpga=False)])
    problem = read_problem(path)
    answer = place_contiguous(problem)
    assert answer.split is not None
    assert {tuple(p.rows) for p in answer.split.parts if p.on_cpu} in ({(1,)}, {(0, 1)})


def test_a_split_comes_back_as_it_was_written(tmp_path: Path) -> None:
    problem = read_problem(written(tmp_path))
    answer = place_contiguous(problem)
    assert answer.split is not None
    path = tmp_path / "split.json"
    path.write_text(json.dumps(split_json(problem, answer.split, answer.value)))
    back = read_split(path, problem)
    assert back.max_load(problem) == answer.value
    assert [p.rows.tolist() for p in back.parts] == [p.rows.tolist() for p in answer.split.parts]


def test_a_problem_comes_back_as_it_was_written(tmp_path: Path) -> None:
    problem = random_problem(5, training=True, colours=0.3, memory=9.0)
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(problem_json(problem)))
    back = read_problem(path)
    assert (
        back.cost.tolist()
        == np.where(np.isin(np.arange(len(problem)), problem.source), problem.cost, 0).tolist()
    )
    assert place_contiguous(back).value == place_contiguous(problem).value


def test_a_split_may_leave_out_backward_nodes_but_no_colour(tmp_path: Path) -> None:
    nodes = [node(1, colorClass=5), node(2, colorClass=5, isBackwardNode=1), node(3)]
    problem = read_problem(written(tmp_path, nodes=nodes, edges=[edge(1, 2)]))
    path = tmp_path / "split.json"
    path.write_text('{"fpgas": [{"nodes": [1, 3]}], "cpus": []}')
    assert read_split(path, problem).parts[0].rows.tolist() == [0, 1, 2]
    path.write_text('{"fpgas": [{"nodes": [1]}], "cpus": []}')
    with pytest.raises(PlacementError, match="does not place node 3"):
        read_split(path, problem)
