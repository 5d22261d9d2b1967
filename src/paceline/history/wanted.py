"""`Wanted`: which entries of a history are meant."""

from dataclasses import dataclass

from paceline.history.entry import Kind


@dataclass(frozen=True)
class Wanted:
    """Entries that fit everything that is said; nothing said means all."""

    kinds: tuple[Kind, ...] = ()
    job: str = ""  # the beginning of the model's digest, or a part of the job's name
    strategy: str = ""  # a strategy's name; "none" for plans without any
    since_ns: int | None = None
    until_ns: int | None = None
    machine: str = ""
    keys: tuple[str, ...] = ()  # the beginnings of entries' keys

    @property
    def everything(self) -> bool:
        return self == Wanted()
