"""A model to serve: digits of 28 x 28 pixels, by a small convolutional network.

    paceline serve examples/serve_digits.py --batch 16
    curl -d "{\"inputs\": [[$(python -c 'print([[0.0] * 28] * 28)')]]}" localhost:8000/predict

Its weights are random: load yours where the comment says so.
"""

import torch
from torch import nn


def build() -> tuple[nn.Module, torch.Tensor]:
    """The model, and an example of its input: one sample, the first dimension is the batch."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 13 * 13, 10),
    )
    # model.load_state_dict(torch.load("digits.pt"))
    return model, torch.zeros(1, 1, 28, 28)
