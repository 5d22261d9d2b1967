"""A worker of the contract test: trains under each strategy, and writes what came of it.

torchrun --nproc-per-node 2 contract_worker.py OUT STEPS [--beside] STRATEGY[ + STRATEGY...] ...

--beside: also what is asked about jobs of other kinds, and of jobs that fail.
"""

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard

import paceline
from paceline.runtime.torch_param_groups import param_groups
from paceline.strategies.plan import Plan

STEPS, AFTER = int(sys.argv[2]), 3
BESIDE = "--beside"
DEVICE = os.environ.get("PACELINE_TEST_DEVICE", "cpu")  # cuda: both workers on one GPU, over gloo
IMAGES = (
    "batchnorm_relu",
    "channels_last",
    "relu_masks",
    "restructured_norms()",
)  # strategies for convolutional nets
FSDP2 = ("fp16", "keep_gathered()", "topk(ratio=0.1)", "random_block(ratio=0.3)",
         "dgc(ratio=0.1, warmup=0)", "powersgd", "topk(layerwise=True)",
         "topk(ratio=0.1) + partition(parts=2)", "accumulate(steps=2) + fp16")  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False  # whose rounding goes by the order of channels
    dist.init_process_group("gloo")
    told = {"": trained(None)}
    gc.freeze()  # what is imported by now: every plan looks for the model among all other objects
    for text in sys.argv[3:]:
        if text != BESIDE:
            told[text] = where_it_can(partial(trained, text, images=text in IMAGES))
    if BESIDE in sys.argv:
        told |= beside(told[""])
    (Path(sys.argv[1]) / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


def beside(plain: dict[str, Any]) -> dict[str, Any]:
    return {
        "images": trained(None, images=True),
        "states": {text: states_left(text) for text in ("local_sgd(period=2)", "diloco(period=3)")},
        "raised": raised(),
        "static": static(),
        "fsdp2": (
            {text or "plain": where_it_can(partial(cut_up, text)) for text in ("", *FSDP2)}
            if DEVICE == "cpu"
            else {"not here": "FSDP2 over gloo on a GPU was never tried"}
        ),
        "broken": {"said": broken(), "after": trained(None)["losses"] == plain["losses"]},
    }


def job(*, images: bool = False) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = (convolutional() if images else perceptron()).to(DEVICE)
    replica = nn.parallel.DistributedDataParallel(model)
    return replica, torch.optim.SGD(replica.parameters(), lr=0.05)


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )


def convolutional() -> nn.Module:
    """The same inputs as images of five channels."""
    return nn.Sequential(
        nn.Unflatten(1, (5, 2, 2)),
        nn.Conv2d(5, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1, padding=1),
        nn.Flatten(),
        nn.Linear(72, 4),
    )


def where_it_can(train: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """As trained; on a GPU, where gloo and some strategies cannot do all, or why not. What fails
    otherwise fails the tests that ask for it, and not those of the plans after it."""
    try:
        return train()
    except Exception as error:
        if DEVICE == "cpu":
            raise
        foreseen = isinstance(error, paceline.PacelineError | RuntimeError | NotImplementedError)
        where = "" if foreseen else "".join(traceback.format_exception(error)[-3:])
        return {"not here" if foreseen else "failed": f"{type(error).__name__}: {error}\n{where}"}


def trained(text: str | None, *, images: bool = False) -> dict[str, Any]:
    """Some plain steps, the strategy's, and some plain ones again."""
    model, optimizer = job(images=images)
    data = torch.Generator().manual_seed(7 + dist.get_rank())
    losses = [step(model, optimizer, data) for _ in range(AFTER)]
    keys = list(model.state_dict())
    if text is None:
        losses += [step(model, optimizer, data) for _ in range(STEPS)]
        return {"losses": losses, "weights": weights(model), "keys": keys}
    with paceline.applied(text.split(" + "), model, optimizer) as sent:
        losses += [step(model, optimizer, data) for _ in range(STEPS)]
        under, kept = weights(model), list(model.state_dict())
        counted = {"steps": sent.steps, **sent.a_step()}
    return {
        "losses": losses,
        "weights": under,
        "left": weights(model),
        "keys": kept,
        "sent": counted,
        **restored(model, data, images=images),
    }


def cut_up(text: str) -> dict[str, Any]:
    """The same under FSDP2, whose modules then reduce as before; or why it is refused."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )
    model.to(DEVICE)
    for module in (model[0], model[2], model):
        fully_shard(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = torch.Generator().manual_seed(7 + dist.get_rank())
    losses = [step(model, optimizer, data)]  # FSDP2 is set up in the first
    before = reducers(model)
    try:
        with paceline.applied(text.split(" + ") if text else [], model, optimizer) as sent:
            losses += [step(model, optimizer, data) for _ in range(STEPS)]
    except paceline.PacelineError as error:
        return {"refused": str(error), "restored": reducers(model) == before}
    counted = {"steps": sent.steps, **sent.a_step()}
    return {"losses": losses, "sent": counted, "restored": reducers(model) == before}


def reducers(model: nn.Module) -> list[tuple[int, int]]:
    """What each of FSDP2's modules reduces by, and what its weights go back to after forward."""
    modules = [module for module in model.modules() if isinstance(module, FSDPModule)]
    groups = [group for m in modules for group in param_groups(m._get_fsdp_state())]
    return [(id(g._reduce_scatter_comm), id(g.post_forward_mesh_info)) for g in groups]


def restored(model: nn.Module, data: torch.Generator, *, images: bool) -> dict[str, Any]:
    """After the strategy: the same steps as a fresh replica of the same weights takes."""
    fresh, optimizer = job(images=images)
    fresh.load_state_dict(model.state_dict())
    state = data.get_state()
    theirs = [step(fresh, optimizer, data) for _ in range(AFTER)]
    data.set_state(state)
    again = torch.optim.SGD(model.parameters(), lr=0.05)
    ours = [step(model, again, data) for _ in range(AFTER)]
    return {"after": ours, "fresh": theirs}


def states_left(text: str) -> list[float]:
    """What Adam holds after a strategy was left in the middle of its period."""
    model, _ = job()
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.Generator().manual_seed(7 + dist.get_rank())
    with paceline.applied([text], model, optimizer):
        for _ in range(5):
            step(model, optimizer, data)
    held = (optimizer.state[p][name] for p in model.parameters() for name in ("exp_avg", "step"))
    return torch.cat([tensor.flatten().cpu() for tensor in held]).tolist()


def raised() -> list[float]:
    """Gradients of the first step after an error ended a strategy in its block."""
    model, optimizer = job()
    data = torch.Generator().manual_seed(7 + dist.get_rank())
    try:
        with paceline.applied(["overlap_local_sgd(period=2)"], model, optimizer):
            for _ in range(3):
                step(model, optimizer, data)
            raise KeyError("the script's own")
    except KeyError:
        step(model, optimizer, data)
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).tolist()


def static() -> bool:
    """Whether a static graph trains the same when a plan comes and goes."""
    learnt = []
    for entered in (False, True):
        torch.manual_seed(1)
        replica = nn.parallel.DistributedDataParallel(perceptron().to(DEVICE), static_graph=True)
        optimizer = torch.optim.SGD(replica.parameters(), lr=0.05)
        data = torch.Generator().manual_seed(7 + dist.get_rank())
        for under in (False, True, False):
            plan = paceline.applied([], replica, optimizer)
            with plan if entered and under else nullcontext():
                for _ in range(AFTER):
                    step(replica, optimizer, data)
        learnt.append(weights(replica))
    return learnt[0] == learnt[1]


def broken() -> str:
    """A plan whose second strategy fails in `apply`."""
    from paceline.strategies.buckets import Buckets
    from paceline.strategies.workers import Workers

    model, optimizer = job()
    try:
        with paceline.applied(Plan((Buckets(100), Workers(99))), model, optimizer):
            raise AssertionError("a plan for 99 workers was entered")
    except paceline.PacelineError as error:
        return str(error)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.Generator) -> float:
    inputs = torch.randn(32, 20, generator=data).to(DEVICE)
    wanted = inputs[:, :4].abs()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    return float(mean) / dist.get_world_size()


def weights(model: nn.Module) -> list[float]:
    """As a checkpoint has them."""
    return torch.cat([tensor.flatten() for tensor in model.state_dict().values()]).tolist()


if __name__ == "__main__":
    main()
