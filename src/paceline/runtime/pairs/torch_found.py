"""Which pairs of linear layers of a live model its workers can share: those that the prediction
names, as far as the model is known to be so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from paceline.graph import Parameter
from paceline.graph.shared_pairs import pairs_of
from paceline.runtime.pairs.torch_chains import Chains
from paceline.runtime.parts.torch_cuttable import Refused, Trained, require_free
from paceline.runtime.run import Run
from paceline.runtime.torch_two_nodes import own_linear_layers


@dataclass(frozen=True, eq=False)
class LivePair:
    """Two layers of which the second takes what the first gives, after elementwise work."""

    first: nn.Linear
    second: nn.Linear

    def cut(self) -> Iterator[tuple[nn.Module, str, int]]:
        """What is cut: of which module, its name there, and in which dimension."""
        yield self.first, "weight", 0
        if self.first.bias is not None:
            yield self.first, "bias", 0
        yield self.second, "weight", 1


def live_pairs(run: Run, job: Trained, degree: int, refused: Refused) -> list[LivePair]:
    layers = {id(layer.weight): layer for layer in _trained(job)}
    weights = [Parameter(name, 0, tuple(layers[key].weight.shape))
               for key, name in run.names.items() if key in layers]  # fmt: skip
    by_name = {name: layers[key] for key, name in run.names.items() if key in layers}
    paths, chains = _paths(job.model), Chains(job.model)

    def joined(first: Parameter, second: Parameter) -> bool:
        ends = [paths.get(id(by_name[each.name])) for each in (first, second)]
        return None not in ends and chains.joined(*map(str, ends))

    pairs = pairs_of(weights, degree, joined)
    if not pairs:
        raise refused(
            f"of its {len(weights)} plain linear layers no two are known to follow one another "
            f"through elementwise work alone, with an inner size that {degree} divides"
        )
    found = [LivePair(by_name[p.first.name], by_name[p.second.name]) for p in pairs]
    require_free((getattr(m, name) for pair in found for m, name, _ in pair.cut()), refused)
    return found


def _trained(job: Trained) -> Sequence[nn.Linear]:
    """Linear layers all of whose parameters the optimizer trains."""
    trained = set(map(id, job.tensors))
    return [
        layer
        for layer in own_linear_layers(job.model)
        if "forward" not in vars(layer) and all(id(p) in trained for p in layer.parameters())
    ]


def _paths(model: Any) -> dict[int, str]:
    """By `id`: where each module is that stands in one place alone."""
    found: dict[int, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        found.setdefault(id(module), []).append(path)
    return {key: paths[0] for key, paths in found.items() if len(paths) == 1}
