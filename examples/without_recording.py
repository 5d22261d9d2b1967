"""How would this training scale? Answered without running it: one imagined rank for each world.

    python examples/without_recording.py examples/train.py --model transformer --parallel fsdp2

Prints a step's predicted time on 8, 64 and 512 H100, eight a host, over 400 Gbit/s.
"""

import sys

from paceline.cluster.files import parse
from paceline.cost import price
from paceline.imagine.imagine import ScriptJob, imagine
from paceline.replay import replay

CLUSTER = """
name: h100
hosts:
  - {name: host, count: 64, device: h100, devices: 8, nics: 8, fabric: nvlink-4}
link: {rate: 400Gbps, latency: 5us}
"""


def main(command: list[str]) -> None:
    cluster = parse(CLUSTER)
    for workers in (8, 64, 512):
        graph = imagine(ScriptJob(tuple(command), workers))
        step_ns = int(replay(price(graph, cluster.with_workers(workers))).end_ns.max())
        print(f"{workers:4} workers: {step_ns / 1e6:8.2f} ms a step")


if __name__ == "__main__":
    main(sys.argv[1:])
