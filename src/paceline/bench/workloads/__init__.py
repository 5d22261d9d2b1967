"""The suite: one workload a file, each a script of its own.

torchrun --nproc-per-node 2 -m paceline.bench.workloads.torch_resnet20 --steps 50
"""
