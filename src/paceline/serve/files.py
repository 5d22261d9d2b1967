"""Profiles as JSON files, kept under what they were measured of and found again by it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from paceline.serve.errors import ServeError
from paceline.serve.profile import Fingerprint, ServingProfile

FORMAT = 1


def folder(environment: Mapping[str, str]) -> Path:
    """PACELINE_CACHE, else the user's cache."""
    if told := environment.get("PACELINE_CACHE"):
        return Path(told).expanduser() / "serve"
    base = environment.get("XDG_CACHE_HOME", "")
    cache = Path(base) if base.startswith("/") else Path("~/.cache").expanduser()
    return cache / "paceline" / "serve"


def file_of(fingerprint: Fingerprint, inside: Path) -> Path:
    told = "\n".join((fingerprint.model, fingerprint.torch, fingerprint.machine))
    return inside / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"


def save(profile: ServingProfile, file: Path) -> None:
    """Whole or not at all: others may read it at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".new")
    document = {"format": FORMAT, **msgspec.to_builtins(profile)}
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1))
    beside.replace(file)


def load(file: Path) -> ServingProfile:
    try:
        document = msgspec.json.decode(file.read_bytes(), type=dict[str, object])
        if document.pop("format", None) != FORMAT:
            raise ServeError(f"{file} is no serving profile of format {FORMAT}; measure anew")
        return msgspec.convert(document, ServingProfile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServeError(f"cannot read the serving profile {file}: {error}") from error


def known(fingerprint: Fingerprint, cores: int, batch: int, inside: Path) -> ServingProfile | None:
    """A profile that was kept, if it is of the same and reaches as far. What a version kept that
    tried no divisions of a batch, or compared no weights, this one measures anew; one core has one
    division."""
    file = file_of(fingerprint, inside)
    if not file.is_file():
        return None
    found = load(file)
    fits = found.fingerprint == fingerprint and found.cores == cores and found.batch >= batch
    whole = (found.tried or cores == 1) and found.prepacked is not None
    return found if fits and whole else None
