"""How far predictions are off: of steps, of input, between two runs, beside noise."""

from benchmarks.figures.row import (
    TIMES,
    Row,
    Table,
    at_most,
    errors,
    percent,
    unit,
)

ACCURACY = Table(
    "error of a prediction",
    (
        *errors("step, recorded and replayed unchanged", "accuracy/self_replay", 0.02, 0.05,
                 "dPRO mostly under 5 % by its account, 14 % in a re-run; Lumos 3.3 %"),
        *errors("step, recorded once, predicted at other link rates and worker counts",
                 "accuracy/retarget", 0.02, 0.08, "Lumos 4.2 %, Daydream about 10 %, SimAI 1.9 %"),
        at_most("the same from any of eight settings to any other, four models, mean",
                 "accuracy/retarget-any", "any_mean_error", 0.04, percent),
        at_most("the same, worst", "accuracy/retarget-any", "any_worst_error", 0.12, percent),
        at_most("step of FSDP2, ZeRO, tensor x data and pipeline x data, recorded once, predicted "
                 "at other link rates and worker counts, mean", "accuracy/retarget-parallel",
                 "parallel_mean_error", 0.05, percent),
        at_most("the same, worst", "accuracy/retarget-parallel", "parallel_worst_error",
                 0.12, percent),
        *errors("step under a strategy, from one recording of the plain job, in the lab",
                 "accuracy/strategies", 0.04, 0.12, "Daydream, two strategies, 7 to 13 %"),
        Row("rows of these that were measured, of all strategies in twelve settings",
            "accuracy/strategies", "share_judged", 1.0, percent),
        at_most("all-reduce on A100, from ten measured sizes, mean",
                 "accuracy/collectives", "mean_error", 0.02, percent),
        at_most("step of Megatron-LM on A100, from its dimensions, one node, mean",
                 "accuracy/megatron", "single_mape",
                 0.15, percent, "vTrain, with a profile of that machine, 8.37 %"),
        at_most("step of Megatron-LM on A100, from its dimensions, many nodes, mean",
                 "accuracy/megatron", "multi_mape",
                 0.12, percent, "vTrain, with a profile of that machine, 14.73 %"),
        at_most("published training speeds, dense models, without a profile, mean",
                 "accuracy/published", "dense_mape", 0.10, percent,
                 "Phantora, with a GPU at hand, 2.9 %; Lumos, from recordings, 4.2 %"),
        at_most("published training speeds, dense models, worst", "accuracy/published",
                 "dense_off", 0.25, percent),
        at_most("published training speeds, mixtures of experts, mean", "accuracy/published",
                 "moe_mape", 0.20, percent),
        at_most("published training speeds, mixtures of experts, worst", "accuracy/published",
                 "moe_off", 0.30, percent),
        at_most("published training speeds, ratio of two rows of one table, mean, in points",
                 "accuracy/published", "ratio_points", 6, unit("points")),
        at_most("published memory of torchtitan, mean", "accuracy/published", "memory_mape",
                 0.08, percent),
        at_most("chosen plan against the best measured one, Megatron-LM on A100, mean",
                 "speed/plan", "regret_mean", 0.03, percent),
        at_most("chosen plan against the best measured one, Megatron-LM on A100, worst",
                 "speed/plan", "regret_worst", 0.12, percent),
        at_most("step of a pipeline, worst", "accuracy/pipeline", "time_error", 0.08, percent),
        at_most("speedup of 2BW over GPipe, worst", "accuracy/pipeline", "speedup_error",
                 0.08, percent),
        at_most("speedup of 2BW over 1F1B, worst", "accuracy/pipeline", "speedup_error_1f1b",
                 0.08, percent),
        at_most("memory of a pipeline stage, worst",
                 "accuracy/pipeline", "memory_error", 0.05, percent, "dPRO 5.25 %"),
    ),
)  # fmt: skip

INPUT = Table(
    "input, and networks unseen",
    (
        *errors("accelerator utilisation with 1 to 4 loader workers, in shares, from one run "
                 "without any; three formats, cached or not", "accuracy/input", 0.05, 0.15, ""),
        at_most("the same, before an accelerator that computes on the host's cores, mean",
                 "accuracy/input", "real_mean_error", 0.05, percent),
        at_most("the same, in a format that was held back, mean", "accuracy/input",
                 "held_back_mean_error", 0.05, percent),
        at_most("latency of 200 unseen convolutional networks from 20 measured, mean",
                 "accuracy/cnn", "mape", 0.1, percent, "by FLOPs at one rate 54 %"),
        Row("rank correlation of predicted and measured latency", "accuracy/cnn",
            "rank_correlation", 0.95, "{:.3f}".format, "FLOPs 0.970"),
        at_most("arithmetic lost within a limit of latency, 8 measurements of a cell space",
                 "accuracy/cnn", "search_model_regret", 0.05, percent, "search by FLOPs 19 %"),
    ),
)  # fmt: skip

COMPARED = Table(
    "two runs compared",
    (
        Row("first cause right, 24 known slow-downs put into recorded jobs", "accuracy/diff",
            "right_share", 0.9, percent),
        Row("the same, of slow-downs recorded when it was written", "accuracy/diff",
            "held_back_right_share", 0.9, percent),
        at_most("differences claimed between 12 pairs of unchanged runs", "accuracy/diff",
                 "false_alarms", 1, unit("pairs")),
        at_most("time attributed, against what was put in, median", "accuracy/diff",
                 "attributed_error", 0.1, percent),
        Row("figures equal to HTA's within 1 %, or equal once its rounding is off",
            "accuracy/analyses", "explained_share", 1.0, percent),
    ),
)  # fmt: skip

NOISE = Table(
    "beside a noisy neighbour of ours, or on too few cores",
    (
        at_most("step, recorded beside it and replayed unchanged, mean", "accuracy/noise",
                 "self_mean", 0.03, percent),
        at_most("step, recorded beside it and replayed unchanged, worst", "accuracy/noise",
                 "self_worst", 0.08, percent),
        at_most("step, recorded beside it, predicted at other settings without it, mean",
                 "accuracy/noise", "retarget_mean", 0.04, percent),
        at_most("step of a pipeline profiled and run beside it, worst", "accuracy/noise",
                 "pipeline_worst", 0.08, percent),
        at_most("recorded with 4 workers on 2 cores, carried to 2 workers and back, mean",
                 "accuracy/noise", "crowded_mean", 0.04, percent),
        at_most("recorded with 4 workers on 2 cores, carried to 2 workers and back, worst",
                 "accuracy/noise", "crowded_worst", 0.1, percent),
        at_most("work of a step recorded beside it, against recorded alone, mean",
                 "accuracy/noise", "work_error", 0.02, percent),
        at_most("pairs of unchanged jobs beside it that `diff` does not call the same",
                 "accuracy/noise", "false_alarms", 0.05, percent),
        Row("rows of these that were measured", "accuracy/noise", "rows_share", 1.0, percent),
        at_most("pulse and counters, CPU time of a step that they add", "overhead/record",
                 "pulse_overhead", 0.005, percent),
    ),
)  # fmt: skip

OVERHEAD = Table(
    "step time while recording, against the step time without",
    (
        at_most("steps of under 1,000 ops", "overhead/record", "small", 1.05, TIMES,
                 "dPRO 1.059 times"),
        at_most("a 12-layer transformer, 13,000 events", "overhead/record", "transformer",
                 1.2, TIMES, "PyTorch's profiler alone 1.15 to 1.19"),
    ),
)  # fmt: skip
