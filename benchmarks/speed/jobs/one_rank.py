"""Imagines one rank of examples/train.py; prints one JSON object. Imports count for nobody.

one_rank.py MODEL WORLD FAKES      FAKES is `ours` or `torchs`
"""

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim.optimizer import register_optimizer_step_post_hook

import paceline.imagine.torch_session as session
from paceline.imagine.torch_imagine import of_script

for _name in ("torch._dynamo", "torch.distributed.fsdp"):  # which fake tensors and scripts import
    import_module(_name)

TRAIN = Path(__file__).parents[3] / "examples" / "train.py"


def main(model: str, world: str, fakes: str) -> dict[str, Any]:
    if fakes == "torchs":
        session.Fakes = lambda: FakeTensorMode(allow_non_fake_inputs=True)
    ends: list[float] = []
    register_optimizer_step_post_hook(lambda *_: ends.append(time.perf_counter()))
    start, cpu = time.perf_counter(), time.process_time()
    command = [str(TRAIN), "--model", model, "--parallel", "fsdp2"]
    found = of_script(session.ImagineSettings(rank=0, world_size=int(world), command=command))
    return {
        "seconds": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
        "steady_s": ends[-1] - ends[-2],
        "ops": len(found.rows),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
