"""What HTA says of traces, as one JSON object. Runs in an environment of its own, in which HTA is
installed. TraceLens is not on PyPI: the package of that name there is another project."""

import gzip
import io
import json
import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path

WORK = ("kernel", "gpu_memcpy", "gpu_memset")  # HTA keeps waits on streams too


def main() -> None:
    warnings.filterwarnings("ignore")
    files = {int(rank): path for rank, path in (item.split("=", 1) for item in sys.argv[1:])}
    with redirect_stdout(io.StringIO()):
        said = hta(files)
    print(json.dumps(said))


def hta(files: dict[int, str]) -> dict[str, object]:
    from hta.trace_analysis import TraceAnalysis

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        given = {
            rank: packed(path, place / f"{rank}.json.gz", rank) for rank, path in files.items()
        }
        analysis = TraceAnalysis(
            trace_files=given, trace_dir=folder, include_last_profiler_step=True
        )
        times = analysis.get_temporal_breakdown(visualize=False)
        overlap = analysis.get_comm_comp_overlap(visualize=False)
        sums = {}
        for rank in files:
            rows = analysis.t.get_trace(rank)
            names = analysis.t.symbol_table.get_sym_table()
            work = [number for number, name in enumerate(names) if name in WORK]
            kernels = rows[(rows["stream"] >= 0) & rows["cat"].isin(work)]
            by_name = kernels.groupby("name")["dur"].sum()
            sums[rank] = {names[int(n)]: float(us) for n, us in by_name.items()}
        return {
            "times": times.to_dict("records"),
            "overlap": overlap.to_dict("records"),
            "kernel_us": sums,
        }


def packed(path: str, place: Path, rank: int) -> str:
    """HTA wants gzip files that say their rank."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        held = json.loads(file.read())
    held.setdefault("distributedInfo", {})["rank"] = rank
    with gzip.open(place, "wt", compresslevel=1) as out:
        json.dump(held, out)
    return str(place)


if __name__ == "__main__":
    main()
