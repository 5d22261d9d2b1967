"""Evolution of the Adam step on real workers, random search with as many trials beside it.

Lists of edits on schedule and kernel, through all three gates: typing, equality with the
interpreter on held-out inputs, interleaved timing. Both searches begin with the program as written
and with the fused, sharded schedule. How many times faster the evolved genome is, all timed in turn
at the end: `gain`, than the program as written on the same back end; `vs_seed`, than that schedule
with default settings; `vs_random`, than the best of random search.

    python benchmarks/speed/evolution.py --json
"""

import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import measure
from paceline.weave import Group
from paceline.weave.backends import backend
from paceline.weave.evolve import EvolutionSettings, EvolutionTask, Evolved, LiveJudge, evolve
from paceline.weave.evolve.edits import Genome, Rewrite, RewriteKind
from paceline.weave.programs import adam

WORKERS = 2
FUSED: Genome = tuple(
    Rewrite(k)
    for k in (RewriteKind.SPLIT, RewriteKind.REORDER, RewriteKind.SLICE, RewriteKind.FUSE)
)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = measure.parser(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    size = 2**18 if options.quick else 2**22
    settings = (
        EvolutionSettings(population=3, generations=1)
        if options.quick
        else EvolutionSettings(generations=3)
    )
    group, runner = Group.world(WORKERS), backend("cpu")
    task = EvolutionTask(adam(size, group), (adam(1001, group),), runner, (FUSED,))
    with LiveJudge("cpu", WORKERS, timeout_s=60) as judge:
        found = evolve(task, judge, random.Random(options.seed), settings)
    print(found.table(), file=sys.stderr)
    return measure.report("speed/evolution", figures(found), options, "torch")


def figures(found: Evolved) -> dict[str, Any]:
    evolved = found["evolved"].seconds
    return {
        "gain": found["as written"].seconds / evolved,
        "vs_seed": found["seed 0"].seconds / evolved,
        "vs_random": found["random search"].seconds / evolved,
        "judged_by_each": found.judged,
        "untyped": found.untyped,
        "wrong": len(found.wrong),
        "dropped": found.dropped,
        "rows": [
            {"name": c.name, "edits": [str(e) for e in c.genome], "ms": 1e3 * c.seconds, "p": c.p}
            for c in found.contenders
        ],
    }


if __name__ == "__main__":
    main()
