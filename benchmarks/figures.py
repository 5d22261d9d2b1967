"""What the README's tables hold: which figure of which benchmark, its target, and its peers'.

A row's figure is read from the newest full result; `tables.py` writes it. To show another figure,
add a row; to show a table, put its markers into the README. Peers' figures were measured on the
same kind of machine, or are the ones that they published.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure: where it comes from, what it must reach, and what others reach."""

    label: str
    benchmark: str
    field: str  # a dotted path into the result; a number is a place in a list
    target: float
    show: Callable[[float], str]
    peers: str = ""
    at_least: bool = True  # else at most

    def met(self, value: float) -> bool:
        return value >= self.target if self.at_least else value <= self.target


@dataclass(frozen=True)
class Table:
    """Rows under a head, for one place of the README."""

    first_column: str
    rows: tuple[Row, ...]


def _at_most(
    label: str,
    benchmark: str,
    field: str,
    target: float,
    show: Callable[[float], str],
    peers: str = "",
) -> Row:
    return Row(label, benchmark, field, target, show, peers, at_least=False)


def _errors(label: str, benchmark: str, mean: float, worst: float, peers: str) -> tuple[Row, Row]:
    """The mean never stands without the worst."""
    return (
        _at_most(f"{label}, mean", benchmark, "mean_error", mean, _percent, peers),
        _at_most(f"{label}, worst", benchmark, "worst_error", worst, _percent),
    )


def _fused(case: str, row: int) -> tuple[Row, Row]:
    """One case of the fused step beside its physical bound."""
    path, name = f"rows.{row}", f"fused step, {case}"
    return (
        Row(f"{name}, against all-reduce and the same optimizer in torch", "speed/fused_step",
            f"{path}.vs_fused_adam", 3, _TIMES),
        Row(f"{name}, share of the memory bandwidth bound", "speed/fused_step",
            f"{path}.bound_share", 0.6, _percent),
    )  # fmt: skip


def _flows(workload: str) -> Row:
    path = f"flow_workloads.{workload}.events_per_s"
    return Row(f"flow-level simulation, events, {workload}", "speed/scale", path, 1e6, _per_second)


def _per_second(value: float) -> str:
    return f"{value / 1e6:.3g} million/s" if value >= 1e6 else f"{value / 1e3:.3g} thousand/s"


def _unit(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


_MS, _S, _MB, _TIMES = _unit("ms"), _unit("s"), _unit("MB"), _unit("times")

_REPLAYERS = (
    "dPRO 34,000 to 98,000/s; vTrain 303,000 to 686,000; ASTRA-sim 38,000 to 45,000; "
    "HTA's critical path 42,000"
)
_RING = "211,200 ops"

SPEED = Table(
    "what",
    (
        Row(f"replay, lanes in recorded order, {_RING}", "speed/replay", "fixed_ops_per_s",
            25e6, _per_second, _REPLAYERS),
        Row(f"replay, lanes by priority, {_RING}", "speed/replay", "priority_ops_per_s",
            8e6, _per_second, _REPLAYERS),
        Row("replay, lanes by priority, 10 million ops", "speed/replay", "priority_10m_ops_per_s",
            4e6, _per_second),
        _at_most(f"replay, working memory beyond the graph, {_RING}", "speed/replay",
                 "bytes_per_op", 64, _unit("bytes/op"), "HTA 3.3 kB per op"),
        _at_most("replay, working memory as the kernel counts it, 10 million ops", "speed/replay",
                 "bytes_per_op_measured", 64, _unit("bytes/op")),
        _at_most(f"exact new step time after one tensor is resized, {_RING}", "speed/replay",
                 "edit_ms_median", 8, _MS, "dPRO copies the graph: 1,543 ms"),
        _at_most(f"exact new step time after one op is resized, lanes by priority, {_RING}",
                 "speed/replay", "priority_op_edit_ms_median", 8, _MS),
        _at_most(f"replay of 1,000 steps with drawn durations, {_RING}",
                 "speed/replay", "draws_s", 30, _S),
        _at_most("replay of 16,384 ranks of the same program, folded",
                 "speed/replay", "folded_s", 1, _S),
        Row(f"replay by the reference in plain Python, {_RING}",
            "speed/replay", "reference_ops_per_s", 300e3, _per_second),
    ),
)  # fmt: skip

WORK = Table(
    "what",
    (
        _at_most("import of eight ranks, 430 MB, 1.73 million events", "speed/import", "seconds",
                 4, _S, "HTA 14.2 s"),
        _at_most("import of eight ranks, 430 MB, peak memory",
                 "speed/import", "peak_mb", 600, _MB, "HTA 955 MB"),
        _at_most("import of 1,480 ranks, 60 million events, two cores", "speed/large", "import_s",
                 360, _S),
        _at_most("import of 1,480 ranks, peak memory", "speed/large", "peak_gb", 12, _unit("GB")),
        _at_most("`show` of 1,480 ranks", "speed/large", "show_s", 20, _S),
        _at_most("what-if on 1,480 ranks, every op", "speed/large", "whatif_s", 10, _S),
        _at_most("what-if on 1,480 ranks, the condensed step", "speed/large",
                 "whatif_condensed_s", 1, _S),
        Row("import on two Dask workers", "speed/large", "dask_import_speedup", 1.7, _TIMES),
        Row("import on two Ray workers", "speed/large", "ray_import_speedup", 1.7, _TIMES),
        _at_most("step time of 16,384 GPUs from a description of the model",
                 "speed/scale", "seconds", 3, _S),
        _at_most("step time of 16,384 GPUs from a description, peak memory", "speed/scale",
                 "peak_mb", 1000, _MB),
        _at_most("graph of one rank of 4,096 from its script, 12-layer transformer, FSDP2",
                 "speed/imagine", "seconds", 1, _S),
        Row("flow-level simulation, events, rings", "speed/scale", "flow_events_per_s",
            1e6, _per_second, "csg-htsim 3.3 million/s, of packets"),
        _flows("all pairs at once"),
        _flows("halving-doubling over 4:1 spines"),
        _flows("random messages over 4:1 spines"),
        Row("fused step, Adam, against all-reduce and torch's fused Adam",
            "speed/fused_step", "vs_fused_adam", 4, _TIMES, "CoCoNet 1.22 to 1.52 times"),
        Row("fused step, Adam, share of the memory bandwidth bound", "speed/fused_step",
            "bound_share", 0.6, _percent),
        Row("fused step, Adam, against reduce-scatter, Adam and all-gather as three kernels of "
            "our own", "speed/fused_step", "vs_own_rs_c_ag", 1.3, _TIMES),
        *_fused("Adam, 64 tensors of 1 MiB", 1),
        *_fused("LAMB", 2),
        *_fused("LAMB, 64 tensors of 1 MiB", 3),
        *_fused("Adam, 4 workers", 4),
        *_fused("LAMB, 4 workers", 5),
        Row("MatMul and AllReduce overlapped, share hidden of what can be hidden", "speed/overlap",
            "hidden_share", 0.85, _percent, "CoCoNet 1.36 times"),
        Row("fp16 and PowerSGD under DDP against torch's own hooks, the slower of them",
            "speed/codecs", "vs_torch", 1, _TIMES),
        Row("threshold against exact top-k, 4.2 million values, one thread", "speed/codecs",
            "threshold_vs_topk", 8, _TIMES),
        _at_most("exact contiguous placement, slowest of 17 inputs, time", "speed/placement",
                 "worst.seconds", 10, _S),
        _at_most("exact contiguous placement, slowest of 17 inputs, peak memory",
                 "speed/placement", "worst.peak_mb", 300, _MB,
                 "the published solver over 18 GB"),
        _at_most("hardware search, two models, 1,024 accelerators, time",
                 "speed/hardware", "seconds", 300, _S),
        _at_most("hybrid plan, 175 billion parameters on 1,024 A100 and mixtures on 512 H100, "
                 "slowest", "speed/plan", "seconds", 10, _S),
        _at_most("hybrid plan, gap to exhaustive, worst of four spaces", "speed/plan",
                 "gap_to_exhaustive", 0.01, _percent),
    ),
)  # fmt: skip

ACCURACY = Table(
    "error of a prediction",
    (
        *_errors("step, recorded and replayed unchanged", "accuracy/self_replay", 0.02, 0.05,
                 "dPRO mostly under 5 % by its account, 14 % in a re-run; Lumos 3.3 %"),
        *_errors("step, recorded once, predicted at other link rates and worker counts",
                 "accuracy/retarget", 0.03, 0.08, "Lumos 4.2 %, Daydream about 10 %, SimAI 1.9 %"),
        _at_most("step of FSDP2, ZeRO, tensor x data and pipeline x data, recorded once, predicted "
                 "at other link rates and worker counts, mean", "accuracy/retarget-parallel",
                 "parallel_mean_error", 0.05, _percent),
        _at_most("the same, worst", "accuracy/retarget-parallel", "parallel_worst_error",
                 0.12, _percent),
        *_errors("step under a strategy, from one recording of the plain job, in the lab",
                 "accuracy/strategies", 0.04, 0.12, "Daydream, two strategies, 7 to 13 %"),
        Row("rows of these that were measured, of all strategies in twelve settings",
            "accuracy/strategies", "share_judged", 1.0, _percent),
        _at_most("all-reduce on A100, from ten measured sizes, mean",
                 "accuracy/collectives", "mean_error", 0.02, _percent),
        _at_most("step of Megatron-LM on A100, from its dimensions, one node, mean",
                 "accuracy/megatron", "single_mape",
                 0.15, _percent, "vTrain, with a profile of that machine, 8.37 %"),
        _at_most("step of Megatron-LM on A100, from its dimensions, many nodes, mean",
                 "accuracy/megatron", "multi_mape",
                 0.12, _percent, "vTrain, with a profile of that machine, 14.73 %"),
        _at_most("published training speeds, dense models, without a profile, mean",
                 "accuracy/published", "dense_mape", 0.10, _percent,
                 "Phantora, with a GPU at hand, 2.9 %; Lumos, from recordings, 4.2 %"),
        _at_most("published training speeds, dense models, worst", "accuracy/published",
                 "dense_off", 0.25, _percent),
        _at_most("published training speeds, mixtures of experts, mean", "accuracy/published",
                 "moe_mape", 0.20, _percent),
        _at_most("published training speeds, mixtures of experts, worst", "accuracy/published",
                 "moe_off", 0.30, _percent),
        _at_most("published memory of torchtitan, mean", "accuracy/published", "memory_mape",
                 0.08, _percent),
        _at_most("chosen plan against the best measured one, Megatron-LM on A100, mean",
                 "speed/plan", "regret_mean", 0.03, _percent),
        _at_most("chosen plan against the best measured one, Megatron-LM on A100, worst",
                 "speed/plan", "regret_worst", 0.12, _percent),
        _at_most("step of a pipeline, worst", "accuracy/pipeline", "time_error", 0.08, _percent),
        _at_most("speedup of 2BW over GPipe, worst", "accuracy/pipeline", "speedup_error",
                 0.08, _percent),
        _at_most("speedup of 2BW over 1F1B, worst", "accuracy/pipeline", "speedup_error_1f1b",
                 0.08, _percent),
        _at_most("memory of a pipeline stage, worst",
                 "accuracy/pipeline", "memory_error", 0.05, _percent, "dPRO 5.25 %"),
    ),
)  # fmt: skip

LEARNING = Table(
    "training another way",
    (
        _at_most("test accuracy lost on Fashion-MNIST, worst of all lossy and relaxed strategies",
                 "accuracy/convergence", "worst_points", 1, _unit("points")),
        Row("Overlap Local-SGD at 100 Mbit/s, one worker with half a core, exchange hidden",
            "accuracy/convergence", "overlap_hidden_share", 0.9, _percent),
        _at_most("its step, error of the prediction", "accuracy/convergence", "overlap_error",
                 0.05, _percent),
    ),
)  # fmt: skip

SUITE = Table(
    "the suite of workloads",
    (
        Row("workloads that converge to their quality", "workloads", "reached_share", 1, _percent),
        _at_most("all of them together, one thread", "workloads", "seconds", 1800, _S),
        _at_most("step, recorded and replayed unchanged, mean", "accuracy/self_replay-suite",
                 "suite_mean_error", 0.03, _percent),
        _at_most("step, recorded and replayed unchanged, worst", "accuracy/self_replay-suite",
                 "suite_worst_error", 0.08, _percent),
        _at_most("step, predicted at another link rate and for 4 workers, mean",
                 "accuracy/retarget-suite", "suite_mean_error", 0.04, _percent),
        _at_most("memory peak by structure, against tensors counted, worst",
                 "accuracy/self_replay-suite", "memory_error", 0.03, _percent),
        _at_most("speed-up of population coding over 25 time steps, error of the prediction",
                 "accuracy/population", "error", 0.08, _percent),
    ),
)  # fmt: skip

CLIENTS = Table(
    "clients with data of their own",
    (
        Row("5 workers, 20 % skew: bytes of synchronous SGD over the skew-aware controller's",
            "accuracy/skew", "saved_mild", 20, _TIMES, "SkewScout 34.1"),
        Row("the same at 100 % skew", "accuracy/skew", "saved_high", 5, _TIMES, "SkewScout 9.6"),
        _at_most("its accuracy below synchronous SGD's, worst skew", "accuracy/skew",
                 "worst_points", 1, _unit("points")),
        Row("group in place of batch normalisation at full skew, accuracy gained",
            "accuracy/skew", "recovered_points", 20, _unit("points")),
        Row("DLion against equal batches and top-k, unequal workers, time to 85 %",
            "accuracy/unequal", "speedup", 2, _TIMES),
        _at_most("DLion's predicted time to 85 %, worst error", "accuracy/unequal",
                 "predicted_error", 0.1, _percent),
        Row("40 clients, equal upload: FedDST above FedAvg with momentum",
            "accuracy/federated", "feddst_points", 3, _unit("points"), "FedDST 10, on CIFAR-10"),
        Row("ProgFed: bytes saved to the final accuracy less a point", "accuracy/federated",
            "progfed_saved", 0.25, _percent, "ProgFed up to 63 %"),
        Row("graph network in four parts at 100 Mbit/s: one bit against fp32, epochs",
            "accuracy/graph_network", "speedup", 8, _TIMES, "Sylvie up to 28.1"),
        _at_most("its accuracy below fp32's", "accuracy/graph_network", "points", 0.5,
                 _unit("points")),
        _at_most("predicted time to accuracy, ten settings, mean error",
                 "accuracy/time_to_target", "mean_error", 0.15, _percent),
        Row("groups whose fastest algorithm was named", "accuracy/time_to_target", "order_right",
            0.9, _percent),
    ),
)  # fmt: skip

OVERHEAD = Table(
    "step time while recording, against the step time without",
    (
        _at_most("steps of under 1,000 ops", "overhead/record", "small", 1.05, _TIMES,
                 "dPRO 1.059 times"),
        _at_most("a 12-layer transformer, 13,000 events", "overhead/record", "transformer",
                 1.2, _TIMES, "PyTorch's profiler alone 1.15 to 1.19"),
    ),
)  # fmt: skip

COMPARED = Table(
    "two runs compared",
    (
        Row("first cause right, 24 known slow-downs put into recorded jobs", "accuracy/diff",
            "right_share", 0.9, _percent),
        Row("the same, of slow-downs recorded when it was written", "accuracy/diff",
            "held_back_right_share", 0.9, _percent),
        _at_most("differences claimed between 12 pairs of unchanged runs", "accuracy/diff",
                 "false_alarms", 1, _unit("pairs")),
        _at_most("time attributed, against what was put in, median", "accuracy/diff",
                 "attributed_error", 0.1, _percent),
        Row("figures equal to HTA's within 1 %, or equal once its rounding is off",
            "accuracy/analyses", "explained_share", 1.0, _percent),
    ),
)  # fmt: skip

_LEFT_OUT = (("batched products", "bmm", 0.12), ("linear layers", "linear", 0.12),
             ("convolutions", "convolution", 0.2), ("element-wise", "pointwise", 0.05),
             ("softmax", "softmax", 0.12), ("normalisations", "norm", 0.15))  # fmt: skip
_TABLED = (("matrix products", "gemm", 0.06, 0.15), ("attention", "attention", 0.045, 0.2),
           ("experts", "moe", 0.08, 0.25), ("collectives", "nccl", 0.05, 0.2))  # fmt: skip

GPUS = Table(
    "kernels of GPUs",
    (
        Row("time of recorded kernels whose arithmetic and bytes are known, traces with shapes",
            "accuracy/kernels", "known_share", 0.95, _percent),
        _at_most("arithmetic against torch's own count, worst of eleven models",
                 "accuracy/kernels", "flops_error", 0.01, _percent),
        _at_most("sum of kernel times carried from H100 to MI300X and back, mean",
                 "accuracy/kernels", "device_error_mean", 0.12, _percent),
        _at_most("step of imported jobs of several GPUs, worst", "accuracy/kernels", "step_error",
                 0.02, _percent),
        *(_at_most(f"{words} on a device left out of the fit, mean", "accuracy/kernels",
                   f"left_out_{name}", most, _percent) for words, name, most in _LEFT_OUT),
        _at_most("69 steps of whole models on a device left out, mean", "accuracy/kernels",
                 "left_out_steps_mean", 0.07, _percent, "NeuSight, with them 10.8 %"),
        _at_most("69 steps of whole models on a device left out, worst", "accuracy/kernels",
                 "left_out_steps_worst", 0.25, _percent, "NeuSight, with them 65 %"),
        *(_at_most(f"{words} of today's devices, a fifth of the shapes held out, mean",
                   "accuracy/kernels", f"held_out_{name}", most, _percent)
          for words, name, most, _ in _TABLED),
        *(_at_most(f"{words} of today's devices, each left out in turn, mean",
                   "accuracy/kernels", f"device_out_{name}", most, _percent)
          for words, name, _, most in _TABLED),
        Row("forecasts of kernels, in columns", "speed/kernels", "forecasts_per_s", 1e6,
            _per_second),
    ),
)  # fmt: skip

LOOP = Table(
    "finding and keeping a plan",
    (
        _at_most("search of a recorded job, slowest of six", "speed/search", "seconds", 10, _S),
        Row("search, plans judged, slowest of six jobs", "speed/search", "candidates_per_s", 500,
            _per_second),
        _at_most("plan found, slower than the best of all, worst of six jobs", "speed/search",
                 "gap_to_exhaustive", 0.01, _percent),
        _at_most("search of a drawn job of 64 ranks", "speed/search", "seconds_64", 10, _S),
        _at_most("search of a drawn job of 1,024 ranks", "speed/search", "seconds_1024", 60, _S),
        Row("search on two Dask workers", "speed/search", "dask_speedup", 1.7, _TIMES),
        Row("search on two Ray workers", "speed/search", "ray_speedup", 1.7, _TIMES),
        _at_most("a job tuned against itself, resampled, called faster", "accuracy/closed_loop",
                 "false_accepts", 0.05, _percent),
        Row("a true gain of 3 %, 200 steps a side, seen", "accuracy/closed_loop", "power", 0.9,
            _percent),
        Row("gain of an exact plan, share of what its bound allows, worst",
            "accuracy/closed_loop", "exact_gain_share", 0.8, _percent),
        Row("found plan against users' own best choice, median", "accuracy/closed_loop",
            "vs_best_hand_median", 1.3, _TIMES),
        _at_most("error of predictions of a known job, of the error without its history",
                 "accuracy/history", "ratio", 0.7, _percent),
    ),
)  # fmt: skip

PAGE = Table(
    "a run's page",
    (
        Row("replays in WebAssembly equal to the native engine's", "speed/page", "equal_share",
            1.0, _percent),
        _at_most("from opening the file to a timeline that reacts, 211,200 ops", "speed/page",
                 "paint_s", 1, _S),
        _at_most("drag of a slider to the redrawn page, 211,200 ops, 95th percentile",
                 "speed/page", "drag_ms", 50, _MS),
        _at_most("the same of a condensed step", "speed/page", "drag_condensed_ms", 16, _MS),
        _at_most("from opening to a timeline that reacts, 60 million events of 1,024 ranks",
                 "speed/page", "large_paint_s", 3, _S),
        _at_most("size of that file", "speed/page", "large_mb", 50, _MB),
        _at_most("a trace of 430 MB, from import to timeline, of Perfetto's time", "speed/page",
                 "vs_perfetto", 0.5, _TIMES),
        _at_most("size of the file, 211,200 ops", "speed/page", "page_mb", 5, _MB),
        _at_most("memory after 1,000 drags and 200 zooms", "speed/page", "leak_mb", 20, _MB),
        Row("speed of the engine under wasmtime, of the native one", "speed/replay", "wasm_share",
            0.3, _percent),
    ),
)  # fmt: skip

INPUT = Table(
    "input, and networks unseen",
    (
        *_errors("accelerator utilisation with 1 to 4 loader workers, in shares, from one run "
                 "without any; three formats, cached or not", "accuracy/input", 0.05, 0.15, ""),
        _at_most("the same, before an accelerator that computes on the host's cores, mean",
                 "accuracy/input", "real_mean_error", 0.05, _percent),
        _at_most("the same, in a format that was held back, mean", "accuracy/input",
                 "held_back_mean_error", 0.05, _percent),
        _at_most("latency of 200 unseen convolutional networks from 20 measured, mean",
                 "accuracy/cnn", "mape", 0.1, _percent, "by FLOPs at one rate 54 %"),
        Row("rank correlation of predicted and measured latency", "accuracy/cnn",
            "rank_correlation", 0.95, "{:.3f}".format, "FLOPs 0.970"),
        _at_most("arithmetic lost within a limit of latency, 8 measurements of a cell space",
                 "accuracy/cnn", "search_model_regret", 0.05, _percent, "search by FLOPs 19 %"),
    ),
)  # fmt: skip

TABLES: Mapping[str, Table] = {
    "gpus": GPUS,
    "input": INPUT,
    "loop": LOOP,
    "page": PAGE,
    "compared": COMPARED,
    "speed": SPEED,
    "work": WORK,
    "accuracy": ACCURACY,
    "learning": LEARNING,
    "suite": SUITE,
    "clients": CLIENTS,
    "overhead": OVERHEAD,
}
