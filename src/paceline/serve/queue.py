"""What waits for an instance: pieces of requests, in order. A value; every change is a new one."""

from dataclasses import dataclass, replace

from paceline.serve.errors import Overloaded


@dataclass(frozen=True)
class Piece:
    """Samples `first` to `end` of a request, without `end`."""

    request: int
    first: int
    end: int
    arrived_ns: int
    failed: int = 0  # instances that died, or models that raised, with it in their batch

    @property
    def samples(self) -> int:
        return self.end - self.first

    def cut(self, samples: int) -> tuple["Piece", "Piece"]:
        at = self.first + samples
        return replace(self, end=at), replace(self, first=at)


@dataclass(frozen=True)
class Queue:
    """Pieces in the order in which they are served, and how many samples may wait."""

    capacity: int
    pieces: tuple[Piece, ...] = ()

    @property
    def samples(self) -> int:
        return sum(piece.samples for piece in self.pieces)

    def offered(self, piece: Piece) -> "Queue":
        """With a new piece at the end; an error where there is no room."""
        if self.samples + piece.samples > self.capacity:
            raise Overloaded(
                f"{self.samples} samples wait, of at most {self.capacity}: no room for "
                f"{piece.samples} more. Ask again later, or start the server with a larger --queue"
            )
        return replace(self, pieces=(*self.pieces, piece))

    def returned(self, pieces: tuple[Piece, ...]) -> "Queue":
        """With pieces of a batch that failed, before all others. They were let in once already, and
        will be tried one by one, so that a request which ends instances ends no other request."""
        again = tuple(replace(piece, failed=piece.failed + 1) for piece in pieces)
        return replace(self, pieces=(*again, *self.pieces))

    def without(self, request: int) -> "Queue":
        return replace(self, pieces=tuple(p for p in self.pieces if p.request != request))

    def due(self, batch: int, now_ns: int, window_ns: int) -> bool:
        """Whether to begin: a whole batch is there, or the first has waited for long enough."""
        if not self.pieces:
            return False
        first = self.pieces[0]
        return bool(first.failed) or self.samples >= batch or now_ns >= first.arrived_ns + window_ns

    def taken(self, samples: int) -> tuple[tuple[Piece, ...], "Queue"]:
        """The next batch of at most so many samples, and what is left. What failed comes alone."""
        found: list[Piece] = []
        left = list(self.pieces)
        while left and samples:
            if found and (found[0].failed or left[0].failed):
                break
            piece = left.pop(0)
            if piece.samples > samples:
                piece, rest = piece.cut(samples)
                left.insert(0, rest)
            samples -= piece.samples
            found.append(piece)
        return tuple(found), replace(self, pieces=tuple(left))


def parted(pieces: tuple[Piece, ...], parts: tuple[int, ...]) -> tuple[tuple[Piece, ...], ...]:
    """A batch's pieces divided among instances, in order."""
    rest, found = Queue(sum(parts), pieces), []
    for samples in parts:
        taken: list[Piece] = []
        while samples:
            more, rest = rest.taken(samples)
            taken += more
            samples -= sum(piece.samples for piece in more)
        found.append(tuple(taken))
    return tuple(found)
