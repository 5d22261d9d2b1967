"""Train a small network on scikit-learn's handwritten digits, data parallel.

torchrun --nproc-per-node 2 examples/train_digits.py
paceline record -o runs/digits -- torchrun --nproc-per-node 2 examples/train_digits.py
"""

import argparse
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    accuracy = train(options.epochs, options.width)
    if dist.get_rank() == 0:
        print(f"accuracy after {options.epochs} epochs: {accuracy:.1%}")
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.2)  # else the interpreter may be gone before gloo's threads let go of its objects


def train(epochs: int, width: int) -> float:
    """Share of the digits held back that the trained network names rightly."""
    learned, held_back = digits()
    model = DistributedDataParallel(
        nn.Sequential(
            nn.Linear(64, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        ),
        bucket_cap_mb=1,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sampler = DistributedSampler(learned, seed=1)
    batches = DataLoader(learned, batch_size=32, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in batches:
            cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
    images, labels = held_back.tensors
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).float().mean())


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,437 images to learn from, 360 held back."""
    images, labels = load_digits(return_X_y=True)
    inputs = torch.tensor(images, dtype=torch.float32) / 16
    targets = torch.tensor(labels)
    return (
        TensorDataset(inputs[:1437], targets[:1437]),
        TensorDataset(inputs[1437:], targets[1437:]),
    )


if __name__ == "__main__":
    main()
