"""What came of an evolution: contenders side by side, and how many genomes each gate stopped."""

from dataclasses import dataclass

from paceline.weave.evolve.edits import Genome


@dataclass(frozen=True)
class Contender:
    """A final genome with its fresh median time, and the chance that it is no faster than the
    program as written."""

    name: str
    genome: Genome
    seconds: float
    p: float


@dataclass(frozen=True)
class Evolved:
    """The result. `judged` genomes cost budget, and random search had as many; `untyped` draws
    fell at the first gate; `wrong` are the reasons of those that fell at the second."""

    contenders: tuple[Contender, ...]
    judged: int
    untyped: int
    wrong: tuple[str, ...]
    dropped: int  # edits that ablation found idle

    def __getitem__(self, name: str) -> Contender:
        return next(c for c in self.contenders if c.name == name)

    def table(self) -> str:
        """For people."""
        written = self["as written"].seconds
        lines = [
            f"{c.name:16} {1e3 * c.seconds:10.3f} ms  {written / c.seconds:6.2f} times  "
            f"p {c.p:.3f}  {', '.join(map(str, c.genome)) or 'no edits'}"
            for c in self.contenders
        ]
        lines.append(
            f"{self.judged} genomes judged by each search; {self.untyped} draws not typed, "
            f"{len(self.wrong)} wrong, {self.dropped} idle edits dropped"
        )
        return "\n".join(lines)
