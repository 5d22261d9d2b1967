"""evolve: a genetic search over lists of edits, random search at equal budget, and ablation.

Mutation adds, drops or redraws an edit; crossover keeps what both parents share and cuts the
shuffled rest at one point (GEVO's). A genome costs budget only once it is typed; what was judged is
remembered. In the end the best is timed afresh, and every edit that is not certainly needed for
its speed is dropped.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from paceline.weave.backend import Backend
from paceline.weave.evolve.edits import Edit, Genome, Variant, pool, variant
from paceline.weave.evolve.judge import Case, Judge, Judged
from paceline.weave.evolve.report import Contender, Evolved
from paceline.weave.program import Program
from paceline.weave.significance import p_faster
from paceline.weave.transforms import Refusal


@dataclass(frozen=True)
class EvolutionSettings:
    """How long and how wide to search."""

    population: int = 8
    generations: int = 4
    crossover: float = 0.8
    rounds: int = 7
    final_rounds: int = 15
    p: float = 0.05
    first_edits: int = 3
    tries: int = 50  # draws before a typed genome is given up


@dataclass(frozen=True)
class EvolutionTask:
    """What is evolved: the program, the same at held-out shapes, the back end, and genomes known to
    be good (schedules that `autotune` enumerates, say), which both searches have."""

    written: Program
    held_out: tuple[Program, ...]
    runner: Backend
    seeds: tuple[Genome, ...] = ()


def evolve(
    task: EvolutionTask,
    judge: Judge,
    draw: random.Random,
    settings: EvolutionSettings | None = None,
) -> Evolved:
    """The best genome found, what random search finds with as many trials, and what is needed."""
    settings = settings or EvolutionSettings()
    trials, others = _Trials(task, judge, settings), _Trials(task, judge, settings)
    trials.judge(_first(trials, draw, settings))
    for _ in range(settings.generations - 1):
        trials.judge(_bred(trials, draw, settings))
    needed = _ablated(trials, trials.best())
    others.judge(task.seeds)
    while len(others.judged) < len(trials.judged):
        if (genome := _drawn(others, draw)) is None:
            break
        others.judge([genome])
    return _final(trials, others, needed)


@dataclass
class _Trials:
    """Genomes judged so far; the first gate is free, the others count."""

    task: EvolutionTask
    judge_of: Judge
    settings: EvolutionSettings
    judged: dict[Genome, Judged] = field(default_factory=dict)
    untyped: int = 0

    def __post_init__(self) -> None:
        self.edits = pool(self.task.written, self.task.runner)

    def made(self, genome: Genome) -> Variant | Refusal:
        return variant(self.task.written, genome, self.task.runner)

    def typed(self, genome: Genome) -> bool:
        """The first gate."""
        fine = not isinstance(self.made(genome), Refusal)
        self.untyped += not fine
        return fine

    def judge(self, genomes: Sequence[Genome]) -> None:
        """The second and third gate, for those not judged before."""
        fresh = [g for g in dict.fromkeys(genomes) if g not in self.judged]
        right = []
        for genome in fresh:
            reason = self._wrong(genome)
            if reason is None:
                right.append(genome)
            else:
                self.judged[genome] = Judged(reason=reason)
        for genome, ratio in zip(right, self.ratios(right)):
            self.judged[genome] = Judged(ratio)

    def ratios(self, genomes: Sequence[Genome]) -> list[float]:
        """Median time over the baseline's, run in turn with it."""
        if not genomes:
            return []
        baseline, *times = self.times([(), *genomes], self.settings.rounds)
        return [statistics.median(t) / statistics.median(baseline) for t in times]

    def times(self, genomes: Sequence[Genome], rounds: int) -> list[list[float]]:
        found = [self.made(g) for g in genomes]
        return self.judge_of.times([v for v in found if isinstance(v, Variant)], rounds)

    def best(self) -> Genome:
        """The fastest right genome; the baseline where nothing beat it."""
        right = {g: j.ratio for g, j in self.judged.items() if j.ratio is not None}
        fastest = min(right, key=lambda g: right[g], default=())
        return fastest if right.get(fastest, 1.0) < 1.0 else ()

    def _wrong(self, genome: Genome) -> str | None:
        cases = []
        for seed, written in enumerate(self.task.held_out):
            made = variant(written, genome, self.task.runner)
            if isinstance(made, Refusal):
                return f"at another shape: {made.reason}"
            cases += [Case(written, made, seed, odd) for odd in (False, True)]
        return self.judge_of.wrong(cases)


def _first(trials: _Trials, draw: random.Random, settings: EvolutionSettings) -> list[Genome]:
    """The program as written, the seeds, and a few mutations of one of these each."""
    known = ((), *trials.task.seeds)
    starts = [draw.choice(known) for _ in range(settings.population)]
    grown = [_mutated(start, trials, draw, settings.first_edits) for start in starts]
    return [*known, *(g for g in grown if g is not None)]


def _bred(trials: _Trials, draw: random.Random, settings: EvolutionSettings) -> list[Genome]:
    """The next population: the best stays, the others are bred from tournament winners."""
    found = [trials.best()]
    while len(found) < settings.population:
        child = _winner(trials, draw)
        if draw.random() < settings.crossover:
            child = _crossed(child, _winner(trials, draw), draw)
        grown = _mutated(child, trials, draw, 1)
        if grown is None:
            break
        found.append(grown)
    return found


def _winner(trials: _Trials, draw: random.Random) -> Genome:
    """The faster of two right genomes drawn at random."""
    right = [(j.ratio, g) for g, j in trials.judged.items() if j.ratio is not None]
    if not right:
        return ()
    return min(draw.choices(right, k=2), key=lambda pair: pair[0])[1]


def _crossed(one: Genome, other: Genome, draw: random.Random) -> Genome:
    """What both share, then the shuffled rest up to a random cut."""
    shared = [e for e in one if e in other]
    rest = [e for e in (*one, *other) if e not in shared]
    draw.shuffle(rest)
    return (*shared, *rest[: draw.randint(0, len(rest))])


def _mutated(genome: Genome, trials: _Trials, draw: random.Random, changes: int) -> Genome | None:
    """So many typed changes, each redrawn until it is typed; None where none is found."""
    for _ in range(changes):
        for _ in range(trials.settings.tries):
            changed = _changed(genome, trials.edits, draw)
            if trials.typed(changed):
                genome = changed
                break
        else:
            return None
    return genome


def _changed(genome: Genome, edits: Sequence[Edit], draw: random.Random) -> Genome:
    """An edit added (mostly), dropped, or redrawn."""
    listed, place = list(genome), draw.randrange(len(genome)) if genome else 0
    chance = draw.random()
    if not listed or chance < 0.6:
        listed.insert(draw.randint(0, len(listed)), draw.choice(edits))
    elif chance < 0.8:
        listed.pop(place)
    else:
        listed[place] = draw.choice(edits)
    return tuple(listed)


def _drawn(trials: _Trials, draw: random.Random) -> Genome | None:
    """A random typed genome that was not judged, or None where none is found."""
    for _ in range(10 * trials.settings.tries):
        start = draw.choice(((), *trials.task.seeds))
        genome = (*start, *(draw.choice(trials.edits) for _ in range(draw.randint(1, 6))))
        if genome not in trials.judged and trials.typed(genome):
            return genome
    return None


def _final(trials: _Trials, others: _Trials, needed: Genome) -> Evolved:
    """Fresh times of the best of both searches, the evolved one less its idle edits."""
    rounds = trials.settings.final_rounds
    seeds = {f"seed {k}": genome for k, genome in enumerate(trials.task.seeds)}
    names = {"as written": (), **seeds, "evolved": needed, "random search": others.best()}
    times = trials.times(list(names.values()), rounds)
    contenders = tuple(
        Contender(name, genome, statistics.median(t), p_faster(t, times[0]))
        for (name, genome), t in zip(names.items(), times)
    )
    wrong = tuple(j.reason for j in trials.judged.values() if j.ratio is None)
    dropped = len(trials.best()) - len(needed)
    return Evolved(contenders, len(trials.judged), trials.untyped, wrong, dropped)


def _ablated(trials: _Trials, genome: Genome) -> Genome:
    """Without every edit whose absence is right and not certainly slower."""
    for place in reversed(range(len(genome))):
        without = (*genome[:place], *genome[place + 1 :])
        if not trials.typed(without):
            continue
        trials.judge([without])
        if trials.judged[without].ratio is None:
            continue
        less, more = trials.times([without, genome], trials.settings.final_rounds)
        if p_faster(more, less) >= trials.settings.p:
            genome = without
    return genome
