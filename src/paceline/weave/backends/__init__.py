"""Back ends: one way to run programs a file, found by name and imported on demand."""

from importlib import import_module

from paceline.weave.backend import Backend
from paceline.weave.host import HostSettings
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


def backend(name: str, host: HostSettings | None = None) -> Backend:
    """The back end of that name; whether it can run here, its `capabilities` tell. `host`: what
    the environment says, read here where it is not given."""
    if name not in _PLACES:
        raise WeaveError(f"no back end {name!r}; there are {', '.join(_PLACES)}")
    module, _, kind = _PLACES[name].partition(":")
    made: Backend = getattr(import_module(module), kind)(host or HostSettings.here())
    return made
