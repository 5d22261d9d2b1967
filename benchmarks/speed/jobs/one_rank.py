"""Imagines one rank of examples/train.py; prints one JSON object. Imports count for nobody.

one_rank.py MODEL WORLD FAKES      FAKES is `ours` or `torchs`
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch._dynamo  # which fake tensors import
import torch.distributed.fsdp  # noqa: F401
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import register_optimizer_step_post_hook

import paceline.record.torch_imagine_session as session
from paceline.record.torch_imagine import of_script

TRAIN = Path(__file__).parents[3] / "examples" / "train.py"


def main(model: str, world: str, fakes: str) -> dict[str, Any]:
    if fakes == "torchs":
        session.Fakes = lambda: FakeTensorMode(allow_non_fake_inputs=True)
    ends: list[float] = []
    register_optimizer_step_post_hook(lambda *_: ends.append(time.perf_counter()))
    start, cpu = time.perf_counter(), time.process_time()
    command = [str(TRAIN), "--model", model, "--parallel", "fsdp2"]
    found = of_script(session.Settings(rank=0, world_size=int(world), command=command))
    return {
        "seconds": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
        "steady_s": ends[-1] - ends[-2],
        "ops": len(found.rows),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
