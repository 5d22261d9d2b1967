"""Finding and keeping a plan, and the page of a run."""

from benchmarks.figures.row import (
    MB,
    MS,
    TIMES,
    Row,
    S,
    Table,
    at_most,
    per_second,
    percent,
)

LOOP = Table(
    "finding and keeping a plan",
    (
        at_most("search of a recorded job, slowest of six", "speed/search", "seconds", 10, S),
        Row("search, plans judged, slowest of six jobs", "speed/search", "candidates_per_s", 500,
            per_second),
        at_most("plan found, slower than the best of all, worst of six jobs", "speed/search",
                 "gap_to_exhaustive", 0.01, percent),
        at_most("search of a drawn job of 64 ranks", "speed/search", "seconds_64", 10, S),
        at_most("search of a drawn job of 1,024 ranks", "speed/search", "seconds_1024", 60, S),
        Row("a long search (5,000 plans) on two Dask workers", "speed/search",
            "dask_long_speedup", 1.7, TIMES, "two plain processes 1.9"),
        Row("the same on two Ray workers", "speed/search", "ray_long_speedup", 1.7, TIMES),
        Row("a short search (3,000 plans, under 2 s) on two Dask workers", "speed/search",
            "dask_speedup", 1.7, TIMES, "two plain processes 1.5"),
        Row("the same on two Ray workers", "speed/search", "ray_speedup", 1.7, TIMES),
        at_most("a job tuned against itself, resampled, called faster", "accuracy/resampled",
                 "false_accepts", 0.05, percent),
        Row("a true gain of 3 %, 200 steps a side, seen", "accuracy/resampled", "power", 0.9,
            percent),
        Row("gain of an exact plan, share of what its bound allows, worst",
            "accuracy/closed_loop", "exact_gain_share", 0.8, percent),
        Row("found plan against users' own best choice, median", "accuracy/closed_loop",
            "vs_best_hand_median", 1.3, TIMES),
        at_most("error of predictions of a known job, of the error without its history",
                 "accuracy/history", "ratio", 0.7, percent),
    ),
)  # fmt: skip

PAGE = Table(
    "a run's page",
    (
        Row("replays in WebAssembly equal to the native engine's", "speed/page", "equal_share",
            1.0, percent),
        at_most("from opening the file to a timeline that reacts, 211,200 ops", "speed/page",
                 "paint_s", 1, S),
        at_most("drag of a slider to the redrawn page, 211,200 ops, 95th percentile",
                 "speed/page", "drag_ms", 50, MS),
        at_most("the same of a condensed step", "speed/page", "drag_condensed_ms", 16, MS),
        at_most("from opening to a timeline that reacts, 60 million events of 1,024 ranks",
                "speed/page", "large_paint_s", 3, S),
        at_most("size of that file", "speed/page", "large_mb", 50, MB),
        at_most("a trace of 430 MB, from import to timeline, of Perfetto's time", "speed/page",
                "vs_perfetto", 0.5, TIMES),
        at_most("size of the file, 211,200 ops", "speed/page", "page_mb", 5, MB),
        at_most("memory after 1,000 drags and 200 zooms", "speed/page", "leak_mb", 20, MB),
        Row("speed of the engine under wasmtime, of the native one", "speed/replay", "wasm_share",
            0.3, percent),
    ),
)  # fmt: skip
