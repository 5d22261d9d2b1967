"""Advantage actor-critic (A2C, after Mnih et al. 2016) on gymnasium's CartPole.

A batch is what the environments of a worker did in some moves under the policy of that moment;
playing is the loading of data.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from paceline.bench.torch_parallel import plain, replicated, supervised
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

GAME = "CartPole-v1"
MOVES = 32  # of each environment in a batch
DISCOUNT, TRACE = 0.99, 0.95
_RECENT = 50  # games whose length counts
_BONUS, _VALUE = 0.01, 0.5


class Player(nn.Module):
    """What to do, and what may still be won."""

    def __init__(self, seen: int, moves: int) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, moves))
        self.value = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(state), self.value(state).squeeze(-1)


class Games(IterableDataset):
    """Many games at once; what was played, and how long games lasted."""

    def __init__(self, player: nn.Module, count: int, seed: int) -> None:
        import gymnasium

        self._games = gymnasium.make_vec(GAME, count, vectorization_mode="vector_entry_point")
        state, _ = self._games.reset(seed=seed)
        self._player, self._state = player, torch.from_numpy(state)
        self._lasted = torch.zeros(count)
        self.lengths: list[float] = []

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        while True:
            yield self._played()

    @torch.no_grad()
    def _played(self) -> tuple[Tensor, ...]:
        """States, moves, advantages and returns of all moves, as one batch."""
        rows = [self._moved() for _ in range(MOVES)]
        states, moves, values, rewards, ends = (torch.stack(column) for column in zip(*rows))
        _, last = self._player(self._state)
        gains = advantages(values, rewards, ends, last)
        columns = (states, moves, gains, gains + values)
        return tuple(column.flatten(0, 1) for column in columns)

    def _moved(self) -> tuple[Tensor, ...]:
        state = self._state
        scores, value = self._player(state)
        move = torch.distributions.Categorical(logits=scores, validate_args=False).sample()
        shown, reward, ended, cut, _ = self._games.step(move.numpy())
        self._state = torch.from_numpy(shown)
        over = torch.from_numpy(ended | cut)
        self._lasted += 1
        self.lengths += self._lasted[over].tolist()
        self._lasted[over] = 0
        return state, move, value, torch.from_numpy(reward).float(), over.float()


def advantages(values: Tensor, rewards: Tensor, ends: Tensor, last: Tensor) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016), backwards in time."""
    found, gain, after = [], torch.zeros_like(last), last
    for value, reward, end in reversed(list(zip(values, rewards, ends))):
        surprise = reward + DISCOUNT * after * (1 - end) - value
        gain = surprise + DISCOUNT * TRACE * (1 - end) * gain
        found.append(gain)
        after = value
    return torch.stack(found[::-1])


def build(setup: Setup) -> Training:
    player = replicated(Player(4, 2), setup)
    games = Games(plain(player), setup.batch, 1000 * setup.seed + setup.rank)
    torch.manual_seed(1000 * setup.seed + setup.rank)  # workers do not move alike
    optimizer = torch.optim.Adam(player.parameters(), lr=1e-3)

    def loss(batch: tuple[Tensor, ...]) -> Tensor:
        states, moves, gains, returns = batch
        scores, values = player(states)
        chances = scores.log_softmax(-1)
        steady = (gains - gains.mean()) / (gains.std() + 1e-6)
        policy = -(chances.gather(1, moves.unsqueeze(1)).squeeze(1) * steady).mean()
        open_ = -(chances.exp() * chances).sum(-1).mean()
        return policy + _VALUE * functional.smooth_l1_loss(values, returns) - _BONUS * open_

    def score() -> float:
        recent = games.lengths[-_RECENT:]
        return sum(recent) / len(recent) if len(recent) == _RECENT else 0.0

    batches: Iterator[Any] = iter(DataLoader(games, batch_size=None))
    return supervised(loss, optimizer, batches, score)


WORKLOAD = Workload(
    name="actor_critic",
    domain=Domain.REINFORCEMENT,
    model="actor and critic, two layers of 64 each",
    data=f"gymnasium's {GAME}, played while training",
    quality=Quality(f"mean length of the last {_RECENT} games", 195.0),
    pace=Pace(batch=16, batches=(4, 8, 16, 32, 64), steps=2000, every=20),
    build=build,
    needs=("gymnasium",),
)

if __name__ == "__main__":
    train(WORKLOAD)
