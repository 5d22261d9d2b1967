"""Means by all-reduce on two workers; what clients learn then, and by sums of every receiver.

torchrun --nproc-per-node 2 sums_worker.py OUT
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import Toy
from paceline.learn import run
from paceline.learn.carrier import Alone
from paceline.learn.torch_workers import joined_workers

TEXTS = ("synchronous", "local_sgd", "overlap_local_sgd", "skewscout(travel=20, samples=9)")


def main() -> None:
    toy = Toy()
    with joined_workers(sums=True) as carrier:
        found = [run(toy.task(text, 12), carrier) for text in TEXTS]
    if not carrier.rank:
        alone = [run(toy.task(text, 12), Alone()) for text in TEXTS]
        told = {
            text: [[each.accuracy for each in r.judged] for r in pair] + [pair[0].sent_bytes]
            + [pair[1].sent_bytes]
            for text, *pair in zip(TEXTS, found, alone)
        }  # fmt: skip
        (Path(sys.argv[1]) / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
