"""Back ends: one way to run programs a file, found by name and imported on demand."""

from importlib import import_module

from paceline.weave.backend import Backend
from paceline.weave.rules import WeaveError

_PLACES = {
    "cpu": "paceline.weave.cpu.backend:CpuBackend",
    "triton": "paceline.weave.gpu.backend:TritonBackend",
    "plain": "paceline.weave.backends.plain:Plain",
    "gloo": "paceline.weave.backends.chunked:Chunked",
}
"""Name -> module:class, in the order in which ties are broken."""


def names() -> tuple[str, ...]:
    return tuple(_PLACES)


def backend(name: str) -> Backend:
    """The back end of that name; whether it can run here, its `capabilities` tell."""
    if name not in _PLACES:
        raise WeaveError(f"no back end {name!r}; there are {', '.join(_PLACES)}")
    module, _, kind = _PLACES[name].partition(":")
    made: Backend = getattr(import_module(module), kind)()
    return made
