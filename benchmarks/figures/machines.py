"""Kernels of GPUs, a transport with bounded loss, machines that differ."""

from benchmarks.figures.row import (
    TIMES,
    Row,
    Table,
    at_most,
    errors,
    per_second,
    percent,
    unit,
)

_LEFT_OUT = (("batched products", "bmm", 0.12), ("linear layers", "linear", 0.12),
             ("convolutions", "convolution", 0.2), ("element-wise", "pointwise", 0.05),
             ("softmax", "softmax", 0.12), ("normalisations", "norm", 0.15))  # fmt: skip
_TABLED = (("matrix products", "gemm", 0.06, 0.15), ("attention", "attention", 0.045, 0.2),
           ("experts", "moe", 0.08, 0.25), ("collectives", "nccl", 0.05, 0.2))  # fmt: skip

GPUS = Table(
    "kernels of GPUs",
    (
        Row("time of recorded kernels whose arithmetic and bytes are known, traces with shapes",
            "accuracy/kernels", "known_share", 0.95, percent),
        at_most("arithmetic against torch's own count, worst of eleven models",
                 "accuracy/kernels", "flops_error", 0.01, percent),
        at_most("sum of kernel times carried from H100 to MI300X and back, mean",
                 "accuracy/kernels", "device_error_mean", 0.12, percent),
        at_most("step of imported jobs of several GPUs, worst", "accuracy/kernels", "step_error",
                 0.02, percent),
        *(at_most(f"{words} on a device left out of the fit, mean", "accuracy/kernels",
                   f"left_out_{name}", most, percent) for words, name, most in _LEFT_OUT),
        at_most("69 steps of whole models on a device left out, mean", "accuracy/kernels",
                 "left_out_steps_mean", 0.07, percent, "NeuSight, with them 10.8 %"),
        at_most("69 steps of whole models on a device left out, worst", "accuracy/kernels",
                 "left_out_steps_worst", 0.25, percent, "NeuSight, with them 65 %"),
        *(at_most(f"{words} of today's devices, a fifth of the shapes held out, mean",
                   "accuracy/kernels", f"held_out_{name}", most, percent)
          for words, name, most, _ in _TABLED),
        *(at_most(f"{words} of today's devices, each left out in turn, mean",
                   "accuracy/kernels", f"device_out_{name}", most, percent)
          for words, name, _, most in _TABLED),
        at_most("step of jobs recorded on an H100 and an H200, against steps without the recorder, "
                 "mean", "accuracy/gpu", "step_mean", 0.05, percent),
        at_most("sum of their kernels, carried from each to the other, mean", "accuracy/gpu",
                 "kernels_mean", 0.12, percent, "kept as recorded 12 %; Habitat 11.8 %"),
        at_most("their steps, carried likewise, mean", "accuracy/gpu", "carried_mean", 0.12,
                 percent),
        at_most("their steps under a strategy, in turns with plain ones, mean", "accuracy/gpu",
                 "plans_mean", 0.08, percent, "Daydream under 13 %"),
        at_most("their scripts, imagined for the device, mean", "accuracy/gpu", "imagined_mean",
                 0.12, percent),
        Row("forecasts of kernels, in columns", "speed/kernels", "forecasts_per_s", 1e6,
            per_second),
    ),
)  # fmt: skip

WIRE = Table(
    "a transport that may lose a bounded share",
    (
        at_most("incast of 4 workers, 64 KB of buffer, 99th percentile of a round, up to 10 % "
                 "lost, of the ideal", "speed/incast", "bounded_p99_of_ideal", 1.12, TIMES),
        at_most("the same, of the best tuned TCP's", "speed/incast", "bounded_p99_of_tuned_tcp",
                 0.7, TIMES),
        at_most("the same, of the best gloo's over tuned TCP", "speed/incast-gloo",
                 "bounded_p99_of_tuned_gloo", 0.7, TIMES),
        at_most("values dropped where the network loses none", "speed/incast",
                 "bounded_dropped", 0, percent),
        Row("training to equal accuracy, 1 % random loss, against the best tuned TCP",
            "accuracy/time_to_accuracy", "speedup_1pct", 1.25, TIMES, "DLCP up to 1.84"),
        Row("training to equal accuracy, 5 % loss in bursts, against the best tuned TCP",
            "accuracy/time_to_accuracy", "speedup_5pct", 1.5, TIMES, "DLCP up to 1.84"),
        at_most("99th percentile of flow completion, 144 hosts simulated, against DCTCP",
                 "speed/fabric", "tail_vs_dctcp", -0.689, percent, "DLCP -91.8 %"),
        at_most("99th percentile of flow completion, 144 hosts simulated, against pFabric",
                 "speed/fabric", "tail_vs_pfabric", -0.665, percent, "DLCP -88.6 %"),
        at_most("the same against pFabric with its own, shorter timer",
                 "speed/fabric", "tail_vs_published_pfabric", -0.665, percent),
        Row("packets simulated, events on one core", "speed/fabric", "events_per_s", 3e6,
            per_second, "csg-htsim 3.3 million/s"),
        Row("sum of gradients of 1 % non-zeros in the switch, 4 workers, 200 Mbit/s, against dense",
            "speed/aggregation", "sketch_speedup", 1, TIMES),
    ),
)  # fmt: skip

SERVING = Table(
    "plans that ran, machines far apart, machines of unequal speed, serving",
    (
        Row("order of all plans of a transformer on 4 workers, 200 Mbit/s and 1 Gbit/s, rank "
            "correlation", "accuracy/plans", "rank_correlation", 0.9, unit("")),
        *errors("their steps", "accuracy/plans", 0.06, 0.25, ""),
        Row("the same of a model and a rate that no constant was found with",
            "accuracy/plans", "held_back.rank_correlation", 0.9, unit("")),
        at_most("their steps, mean", "accuracy/plans", "held_back.mean_error", 0.06, percent),
        Row("the same of a model that ran when the prices were done",
            "accuracy/plans", "since.rank_correlation", 0.9, unit("")),
        at_most("their steps, mean", "accuracy/plans", "since.mean_error", 0.06, percent),
        Row("pipeline over links of 8 Mbit/s, planned, against equal stages in the given order",
            "accuracy/geo", "speedup", 2, TIMES, "FusionLLM 1.45 to 9.39, 8 Mbit/s to 10 Gbit/s"),
        at_most("its loss after as many steps, against the plain one's", "accuracy/geo",
                 "loss_off", 0.01, percent),
        at_most("its step, error of the prediction", "accuracy/geo", "predicted_chosen", 0.08,
                 percent),
        at_most("the same, worst of all plans, the most compressed one among them", "accuracy/geo",
                 "predicted", 0.08, percent),
        Row("unequal batches for unequal workers, share of the ideal gain", "accuracy/geo",
            "mixed_speedup", 0.9, percent),
        at_most("that gain, error of the prediction", "accuracy/geo", "mixed_off", 0.08, percent),
        at_most("their loss against equal batches', batch by batch, worst", "accuracy/geo",
                 "mixed_loss", 0.01, percent),
        at_most("serving plan against brute force, worst", "speed/serve", "gap_to_brute_force",
                 0.03, percent),
        Row("serving plan against one instance on all cores, mean", "speed/serve",
            "vs_one_instance", 1, TIMES),
        Row("serving plan against the best of all plain choices, worst", "speed/serve",
            "vs_plain_worst", 0.97, TIMES),
        Row("serving plan against OpenVINO, mean", "speed/serve", "vs_openvino", 1, TIMES),
        Row("rows of serving plans that were measured", "speed/serve", "rows_share", 1.0, percent),
        at_most("10,000 requests over three changes of load, failed", "speed/serve", "failed", 0,
                 unit("")),
        at_most("99th percentile of a request during a change, of the steady one",
                 "speed/serve", "p99_during", 2, TIMES),
    ),
)  # fmt: skip
