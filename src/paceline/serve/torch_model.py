"""The user's model: what `build` in a file gives, called with named arrays.

`build()` returns the model and an example of its input: a tensor, a tuple of tensors, or a dict of
them for keywords, whose first dimension is the batch. Of what the model returns, the tensors whose
first dimension is the batch are given back; anything else (caches, scalars) is left out.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from paceline.serve.errors import ServeError
from paceline.serve.frames import Arrays
from paceline.serve.signature import Signature, Tensor


@dataclass(frozen=True)
class ServedModel:
    """A callable, and one sample of its input."""

    call: Callable[..., Any]
    example: Mapping[str, Any]
    by_name: bool  # inputs are keywords

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        with torch.inference_mode():
            found = self.called(inputs)
        batch = len(next(iter(inputs.values())))
        return {n: t for n, t in _named(found) if t.dim() and len(t) == batch}

    def called(self, inputs: Mapping[str, Any]) -> Any:
        return self.call(**inputs) if self.by_name else self.call(*inputs.values())

    def repeated(self, batch: int) -> dict[str, Any]:
        """The example as a batch, in memory of its own."""
        return {
            name: tensor.expand(batch, *tensor.shape[1:]).contiguous()
            for name, tensor in self.example.items()
        }

    def answer(self, arrays: Arrays) -> dict[str, Any]:
        inputs = {name: torch.from_numpy(arrays[name]) for name in self.example}
        return {name: as_array(tensor) for name, tensor in self.run(inputs).items()}


def as_array(tensor: Any) -> Any:
    """NumPy knows no bfloat16: it becomes float32."""
    plain = tensor.detach()
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).contiguous().numpy()


def built(target: str) -> ServedModel:
    """Of `file.py:function`; `build` where no function is named."""
    file, function = named_function(target)
    made = getattr(_module(file), function, None)
    if not callable(made):
        raise ServeError(f"{file} has no function {function!r}; give FILE.py:FUNCTION")
    try:
        found = made()
    except Exception as error:
        raise ServeError(f"{function} of {file} raised {_told(error)}") from error
    if not isinstance(found, tuple) or len(found) != 2 or not callable(found[0]):
        raise ServeError(
            f"{function} of {file} did not return a pair (model, example input) but "
            f"{type(found).__name__}"
        )
    model, example = found
    inputs = _inputs(example, target)
    if isinstance(model, torch.nn.Module):
        model.eval()
    return ServedModel(model, inputs, isinstance(example, Mapping))


def named_function(target: str) -> tuple[Path, str]:
    file, colon, function = target.rpartition(":")
    path = Path(file if colon else target)
    if not path.is_file():
        raise ServeError(f"there is no file {path}; give FILE.py:FUNCTION")
    return path, function if colon and function else "build"


def signature(model: ServedModel, target: str) -> Signature:
    """Found by running the example twice over, so that a batch of two comes out as two."""
    try:
        outputs = model.run(model.repeated(2))
    except Exception as error:
        raise ServeError(f"{target} fails on its own example: {_told(error)}") from error
    if not outputs:
        raise ServeError(
            f"{target} gives no tensor whose first dimension is the batch: nothing can be answered"
        )
    return Signature(
        tuple(_tensor(n, as_array(t)) for n, t in model.example.items()),
        tuple(_tensor(n, as_array(t)) for n, t in outputs.items()),
    )


def digest(model: ServedModel, target: str) -> str:
    """Of the file's text, the function, the inputs, and the names and shapes of all weights."""
    file, function = named_function(target)
    found = hashlib.sha256(file.read_bytes())
    found.update(function.encode())
    weights = model.call.state_dict() if isinstance(model.call, torch.nn.Module) else {}
    for name, value in (*model.example.items(), *weights.items()):
        found.update(f"{name} {_shape(value)}\n".encode())
    return found.hexdigest()


def _shape(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, torch.Tensor) else "other"


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _module(file: Path) -> ModuleType:
    sys.path.insert(0, str(file.parent.resolve()))  # what lies beside the file can be imported
    found = spec_from_file_location(file.stem, file)
    if found is None or found.loader is None:
        raise ServeError(f"{file} is no Python file; give FILE.py:FUNCTION")
    module = module_from_spec(found)
    sys.modules[file.stem] = module
    try:
        found.loader.exec_module(module)
    except Exception as error:
        raise ServeError(f"{file} cannot be imported: {_told(error)}") from error
    return module


def _inputs(example: Any, target: str) -> dict[str, Any]:
    """One sample of each input, by name."""
    if isinstance(example, torch.Tensor):
        given = {"input": example}
    elif isinstance(example, Mapping):
        given = dict(example)
    else:
        given = {f"input_{number}": tensor for number, tensor in enumerate(example)}
    for name, tensor in given.items():
        if not isinstance(tensor, torch.Tensor) or not tensor.dim() or not len(tensor):
            raise ServeError(
                f"the example input {name!r} of {target} is no tensor with a batch dimension"
            )
    if not given:
        raise ServeError(f"{target} gives no example input; return (model, tensor)")
    return {name: tensor[:1].contiguous() for name, tensor in given.items()}


def _named(found: Any) -> Iterator[tuple[str, Any]]:
    """Tensors by name, one level deep."""
    if isinstance(found, torch.Tensor):
        yield "output", found
        return
    if isinstance(found, Mapping):
        pairs = list(found.items())
    elif isinstance(found, (tuple, list)):
        pairs = [(f"output_{number}", value) for number, value in enumerate(found)]
    else:
        pairs = []
    yield from ((str(n), value) for n, value in pairs if isinstance(value, torch.Tensor))


def _tensor(name: str, array: Any) -> Tensor:
    return Tensor(name, array.dtype.name, tuple(array.shape[1:]))
