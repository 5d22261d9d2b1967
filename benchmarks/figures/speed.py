"""How fast the engine and the other parts are."""

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
    unit,
)


def _fused(case: str, row: int) -> tuple[Row, Row]:
    """One case of the fused step beside its physical bound."""
    path, name = f"rows.{row}", f"fused step, {case}"
    return (
        Row(f"{name}, against all-reduce and the same optimizer in torch", "speed/fused_step",
            f"{path}.vs_fused_adam", 3, TIMES),
        Row(f"{name}, share of the memory bandwidth bound", "speed/fused_step",
            f"{path}.bound_share", 0.6, percent),
    )  # fmt: skip


def _flows(workload: str) -> Row:
    path = f"flow_workloads.{workload}.events_per_s"
    return Row(f"flow-level simulation, events, {workload}", "speed/scale", path, 1e6, per_second)


_REPLAYERS = (
    "dPRO 34,000 to 98,000/s; vTrain 303,000 to 686,000; ASTRA-sim 38,000 to 45,000; "
    "HTA's critical path 42,000"
)
_RING = "211,200 ops"

SPEED = Table(
    "what",
    (
        Row(f"replay, lanes in recorded order, {_RING}", "speed/replay", "fixed_ops_per_s",
            25e6, per_second, _REPLAYERS),
        Row(f"replay, lanes by priority, {_RING}", "speed/replay", "priority_ops_per_s",
            8e6, per_second, _REPLAYERS),
        Row("replay, lanes by priority, 10 million ops", "speed/replay", "priority_10m_ops_per_s",
            4e6, per_second),
        Row("replay, lanes in recorded order, against a plain replay around one heap",
            "speed/replay", "fixed_vs_plain", 40, TIMES),
        Row("replay, lanes by priority, against a plain replay around one heap",
            "speed/replay", "priority_vs_plain", 8, TIMES),
        Row(f"replay on shared cores, {_RING}, against its twin in plain Python",
            "speed/replay", "cores_vs_reference", 30, TIMES),
        at_most("one changed candidate of a recorded job of four workers, condensed, in the "
                 "lab's conditions", "speed/replay", "candidate_ms", 2, MS),
        at_most(f"replay, working memory beyond the graph, {_RING}", "speed/replay",
                 "bytes_per_op", 64, unit("bytes/op"), "HTA 3.3 kB per op"),
        at_most("replay, working memory as the kernel counts it, 10 million ops", "speed/replay",
                 "bytes_per_op_measured", 64, unit("bytes/op")),
        at_most(f"exact new step time after one tensor is resized, {_RING}", "speed/replay",
                 "edit_ms_median", 8, MS, "dPRO copies the graph: 1,543 ms"),
        at_most(f"exact new step time after one op is resized, lanes by priority, {_RING}",
                 "speed/replay", "priority_op_edit_ms_median", 8, MS),
        at_most(f"replay of 1,000 steps with drawn durations, {_RING}",
                 "speed/replay", "draws_s", 30, S),
        at_most("replay of 16,384 ranks of the same program, folded",
                 "speed/replay", "folded_s", 1, S),
        Row(f"replay by the reference in plain Python, {_RING}",
            "speed/replay", "reference_ops_per_s", 300e3, per_second),
    ),
)  # fmt: skip

WORK = Table(
    "what",
    (
        at_most("import of eight ranks, 430 MB, 1.73 million events", "speed/import", "seconds",
                 4, S),
        at_most("the same, of HTA's time, in turn with it", "speed/import", "over_hta", 0.3, TIMES),
        at_most("import of eight ranks, 430 MB, peak memory",
                 "speed/import", "peak_mb", 600, MB, "HTA 955 MB"),
        at_most("import of 1,480 ranks, 60 million events, two cores", "speed/large", "import_s",
                 360, S),
        at_most("import of 1,480 ranks, peak memory", "speed/large", "peak_gb", 12, unit("GB")),
        at_most("`show` of 1,480 ranks", "speed/large", "show_s", 20, S),
        at_most("what-if on 1,480 ranks, every op", "speed/large", "whatif_s", 10, S),
        at_most("what-if on 1,480 ranks, the condensed step", "speed/large",
                 "whatif_condensed_s", 1, S),
        Row("import on two Dask workers", "speed/spread", "dask_import_speedup", 1.7, TIMES),
        Row("import on two Ray workers", "speed/spread", "ray_import_speedup", 1.7, TIMES),
        at_most("step time of 16,384 GPUs from a description of the model",
                 "speed/scale", "seconds", 3, S),
        at_most("step time of 16,384 GPUs from a description, peak memory", "speed/scale",
                 "peak_mb", 1000, MB),
        at_most("graph of one rank of 4,096 from its script, 12-layer transformer, FSDP2",
                 "speed/imagine", "seconds", 1, S),
        Row("the same, against torch's own cache of fake results", "speed/imagine", "vs_torchs",
            1, TIMES),
        Row("flow-level simulation, events, rings", "speed/scale", "flow_events_per_s",
            1e6, per_second, "csg-htsim 3.3 million/s, of packets"),
        _flows("all pairs at once"),
        _flows("halving-doubling over 4:1 spines"),
        _flows("random messages over 4:1 spines"),
        Row("fused step, Adam, against all-reduce and torch's fused Adam",
            "speed/fused_step", "vs_fused_adam", 4, TIMES, "CoCoNet 1.22 to 1.52 times"),
        Row("fused step, Adam, share of the memory bandwidth bound", "speed/fused_step",
            "bound_share", 0.6, percent),
        Row("fused step, Adam, against reduce-scatter, Adam and all-gather as three kernels of "
            "our own", "speed/fused_step", "vs_own_rs_c_ag", 1.3, TIMES),
        *_fused("Adam, 64 tensors of 1 MiB", 1),
        *_fused("LAMB", 2),
        *_fused("LAMB, 64 tensors of 1 MiB", 3),
        *_fused("Adam, 4 workers", 4),
        *_fused("LAMB, 4 workers", 5),
        Row("MatMul and AllReduce overlapped, share hidden of what can be hidden", "speed/overlap",
            "hidden_share", 0.85, percent, "CoCoNet 1.36 times"),
        Row("fp16 and PowerSGD under DDP against torch's own hooks, the slower of them",
            "speed/codecs", "vs_torch", 1, TIMES),
        Row("threshold against exact top-k, 4.2 million values, one thread", "speed/codecs",
            "threshold_vs_topk", 8, TIMES),
        Row("our exact top-k against torch.topk, the same values", "speed/codecs",
            "topk_vs_torch", 1, TIMES),
        at_most("exact contiguous placement, slowest of 17 inputs, time", "speed/placement",
                 "worst.seconds", 10, S),
        at_most("exact contiguous placement, slowest of 17 inputs, peak memory",
                 "speed/placement", "worst.peak_mb", 300, MB,
                 "the published solver over 18 GB"),
        at_most("latency of a single sample, two inputs, widest gap to its bound within 60 s",
                 "speed/placement-latency", "latency_gap_worst", 0.10, percent),
        at_most("hardware search, two models, 1,024 accelerators, time",
                 "speed/hardware", "seconds", 300, S),
        at_most("hybrid plan, 175 billion parameters on 1,024 A100 and mixtures on 512 H100, "
                 "slowest", "speed/plan", "seconds", 10, S),
        at_most("hybrid plan, gap to exhaustive, worst of four spaces", "speed/plan",
                 "gap_to_exhaustive", 0.01, percent),
    ),
)  # fmt: skip
