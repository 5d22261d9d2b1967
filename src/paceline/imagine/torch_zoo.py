"""Networks of the space as torch modules with random weights, from torchvision's parts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from paceline.imagine.imagined import ImagineError
from paceline.imagine.network_space import ImageNetwork
from paceline.imagine.torch_cells import cells
from paceline.imagine.torch_vision import architecture


def built(network: ImageNetwork) -> Any:
    """Ready to be evaluated. Weights are drawn anew: torchvision's own initialisers take longer
    than the network."""
    return made(lambda: _MAKES[network.family](network))


def imagined(network: ImageNetwork) -> Any:
    """Without weights: for its shapes."""
    with without_weights():
        return _MAKES[network.family](network).eval()


def zoo() -> tuple[str, ...]:
    """Torchvision's classifiers, those of transformers left out."""
    models = architecture("")
    names = models.list_models(module=models)
    return tuple(name for name in names if not name.startswith(_TRANSFORMERS))


def zoo_model(name: str) -> Any:
    """One of them, without weights in memory."""
    if name not in zoo():
        raise ImagineError(f"no network of the zoo is called {name!r}; known: {', '.join(zoo())}")
    extra = {"init_weights": False} if name in _AUXILIARY else {}
    with without_weights():
        return architecture("").get_model(name, weights=None, **extra).eval()


def made(make: Callable[[], Any]) -> Any:
    with without_weights():
        model = make()
    return filled(model)


@contextmanager
def without_weights() -> Iterator[None]:
    """Modules made here hold shapes alone; what would initialise them is left out."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchDispatchMode):
    """Nothing is written into tensors that have no data: torch takes long to find that out."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.is_mutable and args and args[0].is_meta:
            return args[0]
        return func(*args, **(kwargs or {}))


def filled(model: Any) -> Any:
    """A model without weights, with ordinary ones: neither denormal nor growing numbers."""
    model = model.to_empty(device="cpu").eval()
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in model.modules():
            for name, values in module.named_parameters(recurse=False):
                if values.dim() > 1:
                    bound = (3 / max(1, values[0].numel())) ** 0.5
                    values.uniform_(-bound, bound, generator=draws)
                else:
                    values.fill_(1.0 if name == "weight" else 0.0)
            for name, values in module.named_buffers(recurse=False):
                values.fill_(1 if name == "running_var" else 0)
    return model


_TRANSFORMERS: Final = ("vit_", "swin_", "maxvit")
_AUXILIARY: Final = ("googlenet", "inception_v3")


def _resnet(network: ImageNetwork, groups: int = 1, width: int = 64) -> Any:
    parts = architecture("resnet")
    return parts.ResNet(
        parts.Bottleneck, _depths((3, 4, 6, 3), network), groups=groups,
        width_per_group=max(4, round(width * network.width / 4) * 4),
    )  # fmt: skip


def _mobilenet_v2(network: ImageNetwork) -> Any:
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)]  # fmt: skip
    setting = [[t, c, max(1, round(n * network.depth)), s] for t, c, n, s in rows]
    return architecture("mobilenetv2").MobileNetV2(
        width_mult=network.width, inverted_residual_setting=setting
    )


def _mobilenet_v3(network: ImageNetwork) -> Any:
    parts = architecture("mobilenetv3")
    make = parts.mobilenet_v3_large if network.depth >= 1 else parts.mobilenet_v3_small
    return make(width_mult=network.width)


def _mnasnet(network: ImageNetwork) -> Any:
    return architecture("mnasnet").MNASNet(network.width)


def _shufflenet_v2(network: ImageNetwork) -> Any:
    channels = [24, *(max(8, round(c * network.width / 4) * 4) for c in (116, 232, 464)), 1024]
    return architecture("shufflenetv2").ShuffleNetV2(_depths((4, 8, 4), network), channels)


def _squeezenet(network: ImageNetwork) -> Any:
    parts = architecture("squeezenet")
    return (parts.squeezenet1_0 if network.depth >= 1 else parts.squeezenet1_1)()


def _vgg(network: ImageNetwork) -> Any:
    """With the mean of all places in front of its classifier, as later networks have it."""
    plan: list[str | int] = []
    for channels, count in zip((64, 128, 256, 512, 512), _depths((2, 2, 3, 3, 3), network)):
        plan += [*[max(8, round(channels * network.width / 8) * 8)] * count, "M"]
    last = int(plan[-2])
    layers = architecture("vgg").make_layers(plan, batch_norm=True)
    return nn.Sequential(layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 1000))


def _densenet(network: ImageNetwork) -> Any:
    blocks = tuple(_depths((6, 12, 24, 16), network))
    return architecture("densenet").DenseNet(max(8, round(32 * network.width / 4) * 4), blocks, 64)


def _efficientnet(network: ImageNetwork) -> Any:
    parts = architecture("efficientnet")
    part = partial(parts.MBConvConfig, width_mult=network.width, depth_mult=network.depth)
    rows = [(1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
            (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1)]  # fmt: skip
    return parts.EfficientNet([part(*row) for row in rows], dropout=0.2)


def _regnet(network: ImageNetwork) -> Any:
    parts = architecture("regnet")
    group = 8 if network.width < 0.9 else 16
    with torch.device("cpu"):  # it computes widths with tensors
        params = parts.BlockParams.from_init_params(
            depth=max(8, round(16 * network.depth)), w_0=48, w_a=28 * network.width, w_m=2.1,
            group_width=group, se_ratio=0.25 if network.depth >= 1 else None,
        )  # fmt: skip
    return parts.RegNet(params)


def _convnext(network: ImageNetwork) -> Any:
    parts = architecture("convnext")
    wide = [max(16, round(c * network.width / 16) * 16) for c in (96, 192, 384, 768)]
    deep = _depths((3, 3, 9, 3), network)
    return parts.ConvNeXt([parts.CNBlockConfig(*row) for row in zip(wide, (*wide[1:], None), deep)])


def _googlenet(network: ImageNetwork) -> Any:
    return architecture("googlenet").GoogLeNet(aux_logits=False, init_weights=False)


def _depths(usual: tuple[int, ...], network: ImageNetwork) -> list[int]:
    return [max(1, round(count * network.depth)) for count in usual]


_MAKES: Final[Mapping[str, Callable[[ImageNetwork], Any]]] = {
    "resnet": _resnet,
    "resnext": partial(_resnet, groups=32, width=4),
    "mobilenet_v2": _mobilenet_v2,
    "mobilenet_v3": _mobilenet_v3,
    "mnasnet": _mnasnet,
    "shufflenet_v2": _shufflenet_v2,
    "squeezenet": _squeezenet,
    "vgg": _vgg,
    "densenet": _densenet,
    "efficientnet": _efficientnet,
    "regnet": _regnet,
    "convnext": _convnext,
    "googlenet": _googlenet,
    "cell": cells,
}
