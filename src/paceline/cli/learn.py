"""Train many clients with their own data: what skew and slow links cost, the time to a target.

paceline learn partition --data fashion-mnist --clients 5 --partition 'by_class(skew=0.6)'
paceline learn run -o runs/avg --data fashion-mnist --algorithm 'fedavg(steps=10)' --rounds 60
paceline learn show runs/avg runs/prox                # accuracy by round, bytes, advice
paceline learn predict runs/avg runs/prox --target 0.85 --cluster office.yaml
paceline learn noise -o noise.json -- torchrun --nproc-per-node 2 train.py
paceline learn algorithms

`torchrun --nproc-per-node 4 -m paceline learn run ...` lets four workers carry the clients: the
same run, client by client. Fashion-MNIST is Debian's package dataset-fashion-mnist.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli import Shown
from paceline.cli._arguments import calibration_of, count, positive

if TYPE_CHECKING:
    from paceline.learn import Algorithm, Forecast, LearnRun, Partition, Samples, Task
    from paceline.predict import Question


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for name, add in _ACTIONS.items():
        doc = (add.__doc__ or "").strip()
        action = actions.add_parser(name, help=doc, description=doc)
        action.add_argument("--json", action="store_true", help="print one JSON object")
        action.set_defaults(action=add(action))


def run(options: argparse.Namespace) -> "Shown | int":
    action: Callable[[argparse.Namespace], Shown | int] = options.action
    return action(options)


def _partition_arguments(parser: argparse.ArgumentParser) -> "Callable[..., Shown]":
    """Shows which client has which classes."""
    _add_clients(parser)
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw it as a picture, too")
    return _partition


def _run_arguments(parser: argparse.ArgumentParser) -> "Callable[..., Shown | int]":
    """Trains clients round after round, and keeps what it took and gave."""
    _add_clients(parser)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="RUN", help="its folder")
    parser.add_argument("--algorithm", default="fedavg", help="such as 'fedprox(mu=0.1)' (fedavg)")
    parser.add_argument("--model", default="cnn-group-norm", help="network (cnn-group-norm)")
    parser.add_argument("--rounds", type=count, default=40, metavar="N", help="(40)")
    parser.add_argument("--every", type=count, default=1, metavar="N",
                        help="rounds from one judgement to the next (1)")  # fmt: skip
    parser.add_argument("--per-round", type=int, default=0, metavar="N",
                        help="clients that the server asks in each round (all)")  # fmt: skip
    parser.add_argument("--drops", type=float, default=0.0, metavar="SHARE",
                        help="chance that a client drops out of a round (0)")  # fmt: skip
    parser.add_argument("--sums", action="store_true",
                        help="several workers: take means by all-reduce; the last bits then depend "
                        "on their number")  # fmt: skip
    parser.add_argument("--seeds", type=count, default=1, metavar="N", help="runs (1)")
    parser.add_argument("--test-samples", type=count, default=4000, metavar="N",
                        help="that a model is judged on (4000)")  # fmt: skip
    return _run


def _show_arguments(parser: argparse.ArgumentParser) -> "Callable[..., Shown]":
    """Accuracy by round, bytes, and what follows from runs that differ in one thing."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    return _show


def _predict_arguments(parser: argparse.ArgumentParser) -> "Callable[..., Shown]":
    """When runs reach a target on a cluster; of several algorithms, the soonest first."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    parser.add_argument("--target", type=float, required=True, help="accuracy, such as 0.85")
    parser.add_argument("--cluster", required=True, metavar="FILE", help="cluster (YAML)")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                        help="change the cluster, such as link.rate=100Mbps")  # fmt: skip
    parser.add_argument("--cores", type=positive, metavar="N",
                        help="all workers share so many cores, as in the lab")  # fmt: skip
    parser.add_argument("--calibration", type=Path, metavar="FILE",
                        help="rest on what `paceline measure --out FILE` found, such as what "
                        "messages take of a worker's processor")  # fmt: skip
    return _predict


def _noise_arguments(parser: argparse.ArgumentParser) -> "Callable[..., Shown]":
    """Runs a data-parallel job for some steps, and says how noisy its gradients are."""
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE",
                        help="for --goal time-to-accuracy of search and tune")  # fmt: skip
    parser.add_argument("--steps", type=count, default=50, metavar="N", help="(50)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER",
                        help="what ranks wrote, and the job's log (beside FILE)")  # fmt: skip
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    return _noise


def _list_arguments(parser: argparse.ArgumentParser) -> "Callable[..., Shown]":
    """Lists the algorithms and their settings."""
    return _list


_ACTIONS: dict[str, Callable[[argparse.ArgumentParser], Callable[..., Any]]] = {
    "partition": _partition_arguments,
    "run": _run_arguments,
    "show": _show_arguments,
    "predict": _predict_arguments,
    "noise": _noise_arguments,
    "algorithms": _list_arguments,
}


def _add_clients(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER",
                        help="Fashion-MNIST's four files; fashion-mnist: those of Debian's "
                        "package")  # fmt: skip
    parser.add_argument("--clients", type=count, default=5, metavar="N", help="(5)")
    parser.add_argument("--partition", default="equal", metavar="HOW",
                        help="equal, by_class(skew=1.0), dirichlet(concentration=0.1)")  # fmt: skip
    parser.add_argument("--samples", type=count, default=60000, metavar="N",
                        help="of the training samples (all)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of the first run (1)")


def _partition(options: argparse.Namespace) -> Shown:
    from paceline.graph.atomic import atomic_file
    from paceline.report.partition_svg import partition_svg
    from paceline.report.text.learn import partition_lines

    made = _split(options, _samples(options, options.seed)[0], options.seed)
    if options.svg:
        with atomic_file(options.svg) as draft:
            draft.write_text(partition_svg(made))
    data = {"skew": made.skew, "sizes": made.sizes, "counts": made.counts.tolist()}
    return Shown(data, _lines(list(partition_lines(made))))


def _run(options: argparse.Namespace) -> "Shown | int":
    from paceline.learn.seat import crash_visibly, is_seated, seated

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        if not is_seated(os.environ):
            return seated([sys.executable, "-m", "paceline", *sys.argv[1:]], os.environ)
        crash_visibly()
        from paceline.learn.torch_workers import joined_workers

        with joined_workers(options.sums) as carrier:
            made = _runs(options, carrier)
            return 0 if carrier.rank else _told(made)
    return _told(_runs(options, None))


def _runs(options: argparse.Namespace, carrier: Any) -> "list[LearnRun]":
    """One a seed; those that have ended are kept while others run."""
    from paceline.learn import LearnRun, algorithm, run, save
    from paceline.learn.record import Judged, require_place
    from paceline.report import working

    keeps, made = carrier is None or not carrier.rank, list[LearnRun]()
    how = options.algorithm
    with working("training") as say:
        for seed in range(options.seed, options.seed + options.seeds):

            def told(judged: Judged, seed: int = seed) -> None:
                say(
                    f"seed {seed}, round {judged.round + 1} of {options.rounds}: "
                    f"{judged.accuracy:.3f}"
                )

            task = _task(options, algorithm(how), seed)
            if keeps:
                require_place(options.out)
            made.append(run(task, carrier, told))
            how = made[-1].algorithm  # with what was measured for the first
            if keeps:
                save(made, options.out)
    return made


def _task(options: argparse.Namespace, how: "Algorithm", seed: int) -> "Task":
    from paceline.learn import Chances, Task
    from paceline.learn.torch_workers import network

    train, test = _samples(options, seed)
    test = test.some(options.test_samples, 0)
    return Task(
        learner=network(options.model, train, test),
        partition=_split(options, train, seed),
        algorithm=how,
        rounds=options.rounds,
        seed=seed,
        chances=Chances(options.per_round, options.drops),
        every=options.every,
        model=options.model,
        test_samples=len(test),
    )


def _show(options: argparse.Namespace) -> Shown:
    return _told(_loaded(options.runs))


def _told(runs: "Sequence[LearnRun]") -> Shown:
    from paceline.learn.advice import advice
    from paceline.learn.arms import arms
    from paceline.report.text.learn import arm_lines

    found, said = arms(runs), advice(runs)
    rows = [
        {
            **arm.first.asked,
            "skew": arm.first.skew,
            "rounds": arm.rounds,
            "seeds": len(arm.runs),
            "accuracy": arm.accuracy,
            "error": arm.error,
            "sent_bytes": arm.sent_bytes,
        }
        for arm in found
    ]

    def render(console: Any) -> None:
        for line in (*arm_lines(found), *said):
            console.print(line, markup=False, soft_wrap=True)

    return Shown({"runs": rows, "advice": list(said)}, render)


def _predict(options: argparse.Namespace) -> Shown:
    from paceline.cluster import load, with_settings
    from paceline.cluster.tcp import over_tcp
    from paceline.learn import ranked
    from paceline.report.text.learn import forecast_notes, forecast_table

    cluster = with_settings(load(options.cluster), options.set)
    if options.cores:
        cluster = over_tcp(cluster)
    found = ranked(_loaded(options.runs), options.target, cluster, _question(options))

    def render(console: Any) -> None:
        console.print(forecast_table(found, options.target))
        for line in forecast_notes(found):
            console.print(line, markup=False, soft_wrap=True)

    return Shown([_document(one) for one in found], render)


def _question(options: argparse.Namespace) -> "Question":
    """With the machine as it was measured, where it was."""
    from paceline.cluster.machine import Machine
    from paceline.machine import this_machine
    from paceline.predict import Question

    here = this_machine() if options.cores else ""
    made = calibration_of(options, here)
    if not options.cores:
        return Question(calibration=made)
    shared = made.shared if made else None
    machine = shared.machine(options.cores) if shared else Machine(options.cores)
    return Question(machine, made, here=here)


def _document(one: "Forecast") -> dict[str, Any]:
    return {
        **one.asked,
        "seconds": one.seconds,
        "low_s": one.low_s,
        "high_s": one.high_s,
        "rounds": one.reach.rounds,
        "observed": one.reach.observed,
        "best_accuracy": one.reach.best,
        "round_s": one.round.mean_s,
        "sent_bytes": one.sent_bytes,
    }


def _noise(options: argparse.Namespace) -> Shown:
    from dataclasses import asdict

    from paceline.cli.tune import command_of
    from paceline.launch import unwinding
    from paceline.learn.noise import noise_scale, save_noise
    from paceline.report import working
    from paceline.report.text.learn import noise_line
    from paceline.trial import GradientRun, gradients_of

    folder = options.keep or options.out.with_suffix(".run")
    with unwinding(), working("watching gradients"):
        asked = GradientRun(command_of(options), folder, options.steps)
        seen = gradients_of(asked, os.environ)
    found = noise_scale(seen.norms, seen.workers)
    save_noise(found, options.out)
    return Shown(asdict(found), _lines([noise_line(found)]))


def _list(_: argparse.Namespace) -> Shown:
    from paceline.learn import ALGORITHMS
    from paceline.learn.algorithms import about
    from paceline.report.text.facts import facts_table

    data = {name: about(kind) for name, kind in ALGORITHMS.items()}
    return Shown(data, lambda console: console.print(facts_table(data)))


def _loaded(folders: Sequence[Path]) -> "list[LearnRun]":
    from paceline.learn import load

    return [run for folder in folders for run in load(folder)]


def _samples(options: argparse.Namespace, seed: int) -> "tuple[Samples, Samples]":
    """Of one seed; the others' may be others, so that each run can be made again alone."""
    from paceline.learn import fashion_mnist

    train, test = fashion_mnist(options.data)
    return train.some(options.samples, seed), test


def _split(options: argparse.Namespace, samples: "Samples", seed: int) -> "Partition":
    from paceline.learn import split
    from paceline.learn.partition import how

    return split(samples, options.clients, how(options.partition), seed)


def _lines(lines: Sequence[str]) -> Callable[[Any], None]:
    return lambda console: console.print("\n".join(lines), markup=False, soft_wrap=True)
