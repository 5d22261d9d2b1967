"""Which modules of a live job FSDP2 wraps, and why it cannot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.graph.fully_sharded import blocks_of
from paceline.record.torch_facts import clean_path
from paceline.runtime.exchange import ExchangeError
from paceline.runtime.parts.torch_cuttable import Trained, require_free, trained_job
from paceline.runtime.run import Run


@dataclass(frozen=True, eq=False)
class Plain(Trained):
    """A job, and what of it is wrapped."""

    blocks: Sequence[Any]  # modules, each wrapped by itself
    places: Mapping[tuple[int, str], Any]  # by `id` of a module and name: the tensor there

    @property
    def fixed(self) -> set[Any]:
        """Tensors that are not trained, and stay whole."""
        trained = set(map(id, self.tensors))
        return {p for p in self.model.parameters() if id(p) not in trained}


def plain_job(run: Run) -> Plain:
    """The job, if FSDP2 can train it as DDP does."""
    job = trained_job(run, _refused)
    require_free(job.tensors, _refused)
    blocks = list(_blocks(job.model, set(map(id, job.tensors))))
    places = {
        (id(module), name): tensor
        for module in job.model.modules()
        for name, tensor in module.named_parameters(recurse=False)
    }
    return Plain(job.replica, job.optimizer, job.tensors, blocks, places)


def _blocks(model: Any, trained: set[int]) -> Iterator[Any]:
    """Those that the prediction names, by the paths of what is trained."""
    modules: dict[str, Any] = {}
    for path, module in model.named_modules():
        modules.setdefault(clean_path(path), module)
    layers = [
        (clean_path(path), tensor)
        for path, module in model.named_modules()
        for tensor in module.parameters(recurse=False)
        if id(tensor) in trained
    ]
    owner: dict[int, str] = {}
    for path, places in blocks_of([layer for layer, _ in layers]).items():
        for place in places:
            if owner.setdefault(id(layers[place][1]), path) != path:
                raise _refused(f"a tensor is shared by {layers[place][0]} and a layer elsewhere")
        if path:
            yield _callable(path, modules[path])
    if not any(owner.values()):
        raise _refused("its model numbers no blocks (as in layers.3) that could be wrapped")


def _callable(path: str, module: Any) -> Any:
    kinds = {p.dtype for p in module.parameters() if p.requires_grad}
    if len(kinds) > 1:
        raise _refused(f"{path} trains tensors of several types, {', '.join(map(str, kinds))}")
    if type(module).__name__ in ("ModuleList", "ModuleDict"):
        raise _refused(f"{path} is a list of modules, and is not called as one")
    return module


def _refused(why: str) -> ExchangeError:
    return ExchangeError(f"this job cannot go on under FSDP2: {why}; leave fully_sharded out")
