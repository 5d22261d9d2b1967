"""Made-up problems: small random ones for tests, and branching ones with very many ideals."""

import random

import numpy as np

from paceline.place.operators.problem import Ints, Problem, check


def random_problem(
    seed: int,
    nodes: int = 6,
    *,
    training: bool = False,
    accelerators: int = 2,
    cpus: int = 1,
    memory: float = float("inf"),
    unsupported: float = 0.0,
    colours: float = 0.0,
) -> Problem:
    """A random graph with whole numbers; `colours` is the share of nodes that share a colour, and
    with `training` every node but some gets a backward node of its own colour."""
    rng = random.Random(seed)
    edges = {(a, b) for b in range(nodes) for a in range(b) if rng.random() < 0.4}
    colour = list(range(nodes))
    for c in range(1, nodes):
        if rng.random() < colours:
            colour[c] = colour[rng.randrange(c)]
    backward = [False] * nodes
    if training:
        mirror = {c: nodes + c for c in range(nodes)}
        edges |= {(mirror[b], mirror[a]) for a, b in edges}
        edges |= {(c, mirror[c]) for c in range(nodes) if rng.random() < 0.5}
        colour += [c if rng.random() < 0.8 else nodes + i for i, c in enumerate(colour)]
        backward += [True] * nodes
    count = len(colour)
    cpu = [rng.randint(5, 60) for _ in range(count)]
    return check(
        Problem(
            ids=np.arange(count, dtype=np.int64) * 3 + 1,
            supported=np.array([rng.random() >= unsupported for _ in range(count)]),
            cpu_time=np.array(cpu, np.float64),
            accelerator_time=np.array([rng.randint(1, 9) for _ in range(count)], np.float64),
            size=np.array([rng.randint(0, 5) for _ in range(count)], np.float64),
            backward=np.array(backward),
            colour=_dense(colour),
            cost=np.array([rng.randint(0, 4) for _ in range(count)], np.float64),
            source=np.array([a for a, _ in sorted(edges)], np.int64),
            target=np.array([b for _, b in sorted(edges)], np.int64),
            accelerators=accelerators,
            cpus=cpus,
            memory=memory,
        )
    )


def branching(
    lengths: tuple[int, ...], blocks: int, *, seed: int = 0, accelerators: int = 6
) -> Problem:
    """Blocks one after another, each of parallel chains of the given lengths between a fork and a
    join: a block has prod(length + 1) + 1 ideals, two long ones tens of thousands."""
    rng = random.Random(seed)
    edges: list[tuple[int, int]] = []
    count = 1
    for _ in range(blocks):
        fork, ends = count - 1, []
        for length in lengths:
            previous = fork
            for _ in range(length):
                edges.append((previous, count))
                previous, count = count, count + 1
            ends.append(previous)
        edges += [(end, count) for end in ends]
        count += 1
    times = np.array([rng.uniform(0.2, 2.0) for _ in range(count)])
    return check(
        Problem(
            ids=np.arange(count, dtype=np.int64),
            supported=np.ones(count, np.bool_),
            cpu_time=times * 10,
            accelerator_time=times,
            size=np.ones(count),
            backward=np.zeros(count, np.bool_),
            colour=np.arange(count, dtype=np.int64),
            cost=np.array([rng.uniform(0.05, 1.0) for _ in range(count)]),
            source=np.array([a for a, _ in edges], np.int64),
            target=np.array([b for _, b in edges], np.int64),
            accelerators=accelerators,
            cpus=1,
            memory=float("inf"),
        )
    )


def _dense(colour: list[int]) -> Ints:
    return np.asarray(np.unique(colour, return_inverse=True)[1], np.int64)
