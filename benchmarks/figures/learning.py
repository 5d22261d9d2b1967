"""What training another way costs, the suite of workloads, clients with data of their own."""

from benchmarks.figures.row import (
    TIMES,
    Row,
    S,
    Table,
    at_most,
    percent,
    unit,
)

LEARNING = Table(
    "training another way",
    (
        at_most("test accuracy lost on Fashion-MNIST, worst of all lossy and relaxed strategies",
                 "accuracy/convergence", "worst_points", 1, unit("points")),
        Row("Overlap Local-SGD at 100 Mbit/s, one worker with half a core, exchange hidden",
            "accuracy/convergence", "overlap_hidden_share", 0.9, percent),
        at_most("its step, error of the prediction", "accuracy/convergence", "overlap_error",
                 0.05, percent),
    ),
)  # fmt: skip

SUITE = Table(
    "the suite of workloads",
    (
        Row("workloads that converge to their quality", "workloads", "reached_share", 1, percent),
        at_most("all of them together, one thread", "workloads", "seconds", 1800, S),
        at_most("step, recorded and replayed unchanged, mean", "accuracy/self_replay-suite",
                 "suite_mean_error", 0.03, percent),
        at_most("step, recorded and replayed unchanged, worst", "accuracy/self_replay-suite",
                 "suite_worst_error", 0.08, percent),
        at_most("step, predicted at another link rate and for 4 workers, mean",
                 "accuracy/retarget-suite", "suite_mean_error", 0.04, percent,
                 "of {suite_count} rows; {suite_not_measurable} others were not measurable"),
        at_most("the same, worst", "accuracy/retarget-suite", "suite_worst_error", 0.12, percent),
        at_most("memory peak by structure, against tensors counted, worst",
                 "accuracy/suite_memory", "memory_error", 0.03, percent),
        at_most("speed-up of population coding over 25 time steps, error of the prediction",
                 "accuracy/population", "error", 0.08, percent),
    ),
)  # fmt: skip

CLIENTS = Table(
    "clients with data of their own",
    (
        Row("5 workers, 20 % skew: bytes of synchronous SGD over the skew-aware controller's",
            "accuracy/skew", "saved_mild", 20, TIMES, "SkewScout 34.1"),
        Row("the same at 100 % skew", "accuracy/skew", "saved_high", 5, TIMES, "SkewScout 9.6"),
        at_most("its accuracy below synchronous SGD's, worst skew", "accuracy/skew",
                 "worst_points", 1, unit("points")),
        Row("group in place of batch normalisation at full skew, accuracy gained",
            "accuracy/skew", "recovered_points", 20, unit("points")),
        Row("DLion against equal batches and top-k, unequal workers, time to 85 %",
            "accuracy/unequal", "speedup", 2, TIMES),
        at_most("DLion's predicted time to 85 %, worst error", "accuracy/unequal",
                 "predicted_error", 0.1, percent),
        Row("40 clients, equal upload: FedDST above FedAvg with momentum",
            "accuracy/federated", "feddst_points", 3, unit("points"), "FedDST 10, on CIFAR-10"),
        Row("ProgFed: bytes saved to the final accuracy less a point", "accuracy/federated",
            "progfed_saved", 0.25, percent, "ProgFed up to 63 %"),
        Row("graph network in four parts at 100 Mbit/s: one bit against fp32, epochs",
            "accuracy/graph_network", "speedup", 8, TIMES, "Sylvie up to 28.1"),
        at_most("its accuracy below fp32's", "accuracy/graph_network", "points", 0.5,
                 unit("points")),
        at_most("predicted time to accuracy, ten settings, mean error",
                 "accuracy/time_to_target", "mean_error", 0.15, percent),
        Row("groups whose fastest algorithm was named", "accuracy/time_to_target", "order_right",
            0.9, percent),
    ),
)  # fmt: skip
