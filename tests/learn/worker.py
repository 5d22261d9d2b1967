"""Clients carried by two workers, and by one: the weights of each client, for comparison.

torchrun --nproc-per-node 2 worker.py OUT
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))

from conftest import Toy
from paceline.learn import ByClass, Chances
from paceline.learn.carrier import Alone, Carrier
from paceline.learn.graphs import Neighbourhood, nearest_neighbours, parted, parts_of
from paceline.learn.graphs.network import GraphNetwork
from paceline.learn.graphs.torch_training import GraphTask, _Training
from paceline.learn.peers_run import PeersRun
from paceline.learn.served_run import ServedRun
from paceline.learn.torch_workers import joined_workers, network

TEXTS = (
    "fedavg(server_momentum=0.5)", "scaffold", "feddst(sparsity=0.5, every=2)", "synchronous",
    "local_sgd", "gaia(threshold=0.1)", "dgc(ratio=0.3, warmup=2)", "overlap_local_sgd",
    "diloco(steps=5)", "skewscout(travel=10, samples=9)",
    "skewscout(travel=2, samples=9, behind='dgc')",
    "dlion(links_mbit=(1.0, 1.0, 1.0, 1.0, 1.0), send_ms=1.0, merge_every=2)",
)  # fmt: skip


def main() -> None:
    out = Path(sys.argv[1])
    with joined_workers() as carrier:
        pair = weights(carrier)
        both: list = [None, None]
        dist.all_gather_object(both, pair)
    if not carrier.rank:
        np.savez(out / "pair.npz", **{**both[1], **both[0]})
        np.savez(out / "alone.npz", **weights(Alone()))


def weights(carrier: Carrier) -> dict[str, np.ndarray]:
    """By algorithm and client, of this worker's clients; and of the server."""
    toy, found = Toy(), {}
    for text in TEXTS:
        task = toy.task(text, 4, clients=5, how=ByClass(0.5))
        task = replace(task, chances=Chances(drops=0.2))
        if text == "fedavg(server_momentum=0.5)":
            task = replace(task, learner=network("cnn-batch-norm", images(toy), images(toy)))
        served = "server" in text or text.startswith(("scaffold", "feddst"))
        driver = (ServedRun if served else PeersRun)(task, carrier)
        for number in range(4):
            driver.round(number)
        driver.judge(3, None)
        for number, client in driver.mine.items():
            kept = [client.weights, *client.keeps.values()]
            found[f"{text} {number}"] = np.concatenate([each.ravel() for each in kept])
        if served and driver.server is not None:
            found[f"{text} server"] = driver.server["weights"]
        if not carrier.rank:
            found[f"{text} bytes"] = np.array(driver.sent)
    return {**found, **graph_weights(toy, carrier)}


def graph_weights(toy: Toy, carrier: Carrier) -> dict[str, np.ndarray]:
    """Of a graph network in three parts, with one-bit halos that are stale."""
    graph = nearest_neighbours(toy.clouds(60), Neighbourhood(4))
    parts = parts_of(graph, parted(graph, 3, "greedy"))
    driver = _Training(GraphTask(parts, GraphNetwork(hidden=8, bits=1, stale=3), 5), carrier)
    for epoch in range(5):
        right = driver.epoch(epoch)
    driver.judge(4, right, None)
    driver.halos.finish()
    return {
        f"graph {part.number}": torch.cat([p.detach().ravel() for p in net.parameters()]).numpy()
        for part, net in zip(driver.mine, driver.nets)
    }


def images(toy: Toy):
    """The clouds as images of 28 x 28."""
    samples = toy.clouds()
    pictures = np.repeat(samples.inputs, 196, axis=1).reshape(-1, 1, 28, 28)
    return replace(samples, inputs=np.ascontiguousarray(pictures))


if __name__ == "__main__":
    main()
