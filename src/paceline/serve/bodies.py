"""Bodies of requests and answers: JSON, `.npy` for one array, `.npz` for several."""

import io
import zipfile
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import msgspec
import numpy as np

from paceline.serve.errors import BadRequest
from paceline.serve.frames import Arrays
from paceline.serve.signature import Signature, Tensor


class Media(Enum):
    """How arrays are written, by its content type."""

    JSON = "application/json"
    NPY = "application/x-npy"
    NPZ = "application/x-npz"
    LINES = "application/x-ndjson"  # answers alone: a line for each part, as it is ready


def media_of(content_type: str) -> Media:
    """Of a request's `Content-Type`; JSON where it says nothing."""
    told = content_type.partition(";")[0].strip().lower()
    if told in ("", Media.JSON.value):
        return Media.JSON
    for one in (Media.NPY, Media.NPZ):
        if told == one.value:
            return one
    raise BadRequest(
        f"content type {told!r}; allowed: {Media.JSON.value}, {Media.NPY.value} (one array), "
        f"{Media.NPZ.value} (several, by name)"
    )


def accepted(accept: str, given: Media) -> Media:
    """What the client wants to have, by `Accept`; else what it sent."""
    told = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return next((one for one in Media if one.value in told), given)


def read(body: bytes, media: Media, signature: Signature) -> Arrays:
    """The inputs, in the types that the model takes."""
    return _READERS[media](body, signature)


def _from_json(body: bytes, signature: Signature) -> Arrays:
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    given = document.get("inputs") if isinstance(document, dict) else None
    if given is None:
        raise BadRequest(f'the body has no "inputs"; send {{"inputs": ...}} with {signature}')
    if not isinstance(given, dict):
        given = {signature.inputs[0].name: given}
    return {name: _from_list(name, value, signature) for name, value in given.items()}


def _from_list(name: str, value: Any, signature: Signature) -> "np.ndarray[Any, Any]":
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise BadRequest(f"input {name!r} has rows of unequal length: {error}") from error
    if array.dtype.kind not in "biuf":
        raise BadRequest(f"input {name!r} holds other things than numbers; allowed: {signature}")
    return _as_taken(name, array, signature)


def _from_npy(body: bytes, signature: Signature) -> Arrays:
    if len(signature.inputs) != 1:
        raise BadRequest(f"the model takes several arrays: send {Media.NPZ.value} with {signature}")
    try:
        array = np.load(io.BytesIO(body), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadRequest(f"the body is no .npy file: {error}") from error
    if not isinstance(array, np.ndarray):
        raise BadRequest(f"the body is no .npy file but an archive; send it as {Media.NPZ.value}")
    name = signature.inputs[0].name
    return {name: _as_taken(name, array, signature)}


def _from_npz(body: bytes, signature: Signature) -> Arrays:
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise BadRequest(f"the body is no .npz file: {error}") from error
    return {name: _as_taken(name, array, signature) for name, array in arrays.items()}


_READERS: Mapping[Media, Callable[[bytes, Signature], Arrays]] = {
    Media.JSON: _from_json,
    Media.NPY: _from_npy,
    Media.NPZ: _from_npz,
}


def _as_taken(
    name: str, array: "np.ndarray[Any, Any]", signature: Signature
) -> "np.ndarray[Any, Any]":
    """In the model's type; whole numbers may become fractions, never the other way round."""
    wanted = next((tensor for tensor in signature.inputs if tensor.name == name), None)
    if wanted is None:
        raise BadRequest(f"no input is called {name!r}; allowed: {signature}")
    kind = np.dtype(wanted.dtype)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and kind.kind != "f"):
        raise BadRequest(f"input {name!r} is of {array.dtype}; allowed: {wanted}")
    return array.astype(kind, copy=False)


def write(outputs: Arrays, media: Media) -> bytes:
    """One answer in full."""
    return _WRITERS[media](outputs)


def line(first: int, end: int, outputs: Arrays) -> bytes:
    """One part of an answer: samples `first` to `end`, without `end`."""
    return _json({"first": first, "end": end, "outputs": _lists(outputs)}) + b"\n"


def failure_line(reason: str) -> bytes:
    """The last line of an answer that could not be given in full."""
    return _json({"error": reason}) + b"\n"


def _to_npy(outputs: Arrays) -> bytes:
    if len(outputs) != 1:
        raise BadRequest(f"the model gives {sorted(outputs)}; accept {Media.NPZ.value} or JSON")
    file = io.BytesIO()
    np.save(file, next(iter(outputs.values())), allow_pickle=False)
    return file.getvalue()


def _to_npz(outputs: Arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **outputs)
    return file.getvalue()


def _to_json(outputs: Arrays) -> bytes:
    return _json({"outputs": _lists(outputs)})


_WRITERS: Mapping[Media, Callable[[Arrays], bytes]] = {
    Media.JSON: _to_json,
    Media.NPY: _to_npy,
    Media.NPZ: _to_npz,
}


def _lists(outputs: Arrays) -> dict[str, Any]:
    return {name: array.tolist() for name, array in outputs.items()}


def _json(document: Any) -> bytes:
    """What is no number in JSON (infinities, NaN) is null."""
    return msgspec.json.encode(document)


def limit_bytes(tensors: tuple[Tensor, ...], samples: int) -> int:
    """The longest body that is read: numbers in JSON take up to 32 characters."""
    numbers = sum(tensor.size_bytes for tensor in tensors) * samples
    return 65536 + 32 * numbers
