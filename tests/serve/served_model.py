"""A model for tests: twice its input, or what the first number of a sample asks for."""

import os
import time

import torch

DIES, RAISES, HANGS = 666.0, 777.0, 888.0


class Doubling(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(4) * 2)

    def forward(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        asked = set(rows[:, 0].tolist())
        if DIES in asked:
            os._exit(3)
        if RAISES in asked:
            raise IndexError("no such row")
        if HANGS in asked:
            time.sleep(3600)
        return {"doubled": rows @ self.weight, "sum": rows.sum(1)}


def build() -> tuple[torch.nn.Module, torch.Tensor]:
    return Doubling(), torch.ones(1, 4)


def pair() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    class Adding(torch.nn.Module):
        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return left + right

    return Adding(), {"left": torch.zeros(1, 2), "right": torch.zeros(1, 2, dtype=torch.int64)}


def wrong() -> torch.nn.Module:
    return Doubling()
