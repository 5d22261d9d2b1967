"""From a model's file to a plan: the profile that was kept, or a new one; then every plan."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.machine import this_machine
from paceline.serve import files
from paceline.serve.dispatcher import Planned
from paceline.serve.errors import ServeError
from paceline.serve.knapsack import InstanceShare
from paceline.serve.plan import ServingChoice, ServingPlan, best_plan, plain_choices
from paceline.serve.prepacking import prepack
from paceline.serve.profile import Fingerprint, ServingProfile, sizes
from paceline.serve.profiling import Reach, measured_plan, profiled
from paceline.serve.template import Built, Template, template
from paceline.serve.topology import Topology, topology_here

Said = Callable[[str], None]


@dataclass(frozen=True)
class ServeJob:
    """What is to be served, on how many cores, and how many samples at once."""

    target: str  # FILE.py:FUNCTION
    cores: int
    batch: int
    kept: Path  # folder of profiles
    fresh: bool = False  # measure again
    as_written: bool = False  # no prepacked weights

    def require(self, usable: int) -> None:
        if self.batch < 1 or self.cores < 1:
            raise ServeError(f"{self.cores} cores and batches of {self.batch}: give 1 or more each")
        if self.cores > usable:
            raise ServeError(
                f"{self.cores} cores asked; this process may use {usable}. Give --cores {usable} "
                "or fewer"
            )


@dataclass(frozen=True)
class Prepared:
    """A loaded model with all that is known of its times."""

    job: ServeJob
    template: Template
    profile: ServingProfile
    topology: Topology

    @property
    def planned(self) -> Planned:
        plans = {size: self.plan(size) for size in sizes(self.job.batch)}
        return Planned(self.profile, self.topology, plans)

    def plan(self, batch: int) -> ServingPlan:
        return best_plan(self.profile, self.job.cores, batch)

    def rows(self, batch: int) -> tuple[ServingChoice, ...]:
        """The plan, and what one would do without a search."""
        plain = plain_choices(self.profile, self.topology, self.job.cores, batch)
        return (ServingChoice("plan", self.plan(batch)), *plain)

    async def measured(
        self, rows: tuple[ServingChoice, ...], rounds: int
    ) -> tuple[ServingChoice, ...]:
        """Each division run for real, in turn; rows of the same one share its runs."""
        runs: dict[tuple[InstanceShare, ...], list[float]] = {row.plan.shares: [] for row in rows}
        for _ in range(rounds):
            for shares, mine in runs.items():
                mine += await measured_plan(self.template, self.topology, shares)
        return tuple(replace(row, runs_ns=tuple(runs[row.plan.shares])) for row in rows)


@asynccontextmanager
async def prepared(job: ServeJob, said: Said) -> AsyncIterator[Prepared]:
    """The model's process, open as long as the block, and its profile."""
    everything = topology_here()
    job.require(len(everything.processors))
    topology = topology_here(everything.processors[: job.cores])
    async with template(job.target) as model:
        profile = await _profile(job, model, topology, said)
        yield Prepared(job, model, profile, topology)


async def _profile(
    job: ServeJob, model: Template, topology: Topology, said: Said
) -> ServingProfile:
    """With the model on the weights that it is of."""
    fingerprint = fingerprint_of(model.built, topology, this_machine(), job.as_written)
    found = None if job.fresh else files.known(fingerprint, job.cores, job.batch, job.kept)
    if found is not None and (not found.prepacked or (await model.prepack()).weights):
        said(f"profile of {found.date}: {len(found.points)} points")
        model.prepacked = bool(found.prepacked)
        return found
    ours = False if job.as_written else await prepack(model, topology, job.batch, said)
    reach = Reach(job.cores, job.batch)
    made = replace(await profiled(model, fingerprint, topology, reach, said), prepacked=ours)
    files.save(made, files.file_of(fingerprint, job.kept))
    return made


def fingerprint_of(
    built: Built, topology: Topology, told: str, as_written: bool = False
) -> Fingerprint:
    model = f"{built.model} as written" if as_written else built.model
    return Fingerprint(model, built.torch, f"{told}, processors {topology.processors}")
