"""One worker of a graph network in four parts; worker 0 keeps the run.

graph_worker.py DATA NODES EPOCHS BITS MEANS STALE OUT
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import torch
from benchmarks.accuracy.graph_network import HIDDEN, parts

from paceline.learn import save
from paceline.learn.graphs.network import GraphConvolution, GraphNetwork
from paceline.learn.graphs.torch_training import GraphTask, train
from paceline.learn.torch_workers import joined_workers


def main() -> None:
    folder, nodes, epochs, bits, means, stale, out = sys.argv[1:]
    torch.set_num_threads(1)
    how = GraphNetwork(
        GraphConvolution.SAGE,
        hidden=HIDDEN,
        bits=int(bits),
        means=means == "means",
        stale=int(stale),
    )
    with joined_workers(sums=True) as carrier:
        made = train(GraphTask(parts(Path(folder), int(nodes)), how, int(epochs)), carrier)
        if not carrier.rank:
            save([made], Path(out))


if __name__ == "__main__":
    main()
