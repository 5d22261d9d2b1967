"""One training job, recorded again and again: stretches with and without instruments in turn.

    torchrun --nproc-per-node 2 benchmarks/accuracy/windows.py FOLDER --windows 8 --model mlp

Each window is a recording of its own, `FOLDER/0` and so on; all other options are those of
`examples/train.py`.
"""

import argparse
import sys
import time
from pathlib import Path

import torch.distributed as dist

import paceline

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

WARMUP = 20  # steps of a window besides its plain and recorded ones, at most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--window-steps", type=int, default=20)
    options, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    import train

    step = train.prepare(train.parse())
    each = options.window_steps
    for window in range(options.windows):
        with paceline.record(options.folder / str(window), steps=each, plain=each):
            for _ in range(3 * each + WARMUP):
                step()
    dist.barrier()
    del step
    dist.destroy_process_group()
    time.sleep(0.2)  # else the interpreter may be gone before gloo's threads let go of its objects


if __name__ == "__main__":
    main()
