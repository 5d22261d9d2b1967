"""Convolution, recurrence and CTC (as Deep Speech 2, Amodei et al. 2016) on spoken digits.

The audio is made: each digit is two tones of its own, of varying length, loudness and pitch, with
pauses and noise. What is learnt from is its spectrogram, computed with the batch.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.bench.torch_data import drawn, endless
from paceline.bench.torch_parallel import Judging, plain, replicated, supervised
from paceline.bench.torch_training import train
from paceline.bench.workload import Domain, Pace, Quality, Setup, Training, Workload

RATE = 4000  # samples of sound in a second
WINDOW, HOP = 128, 40
DIGITS, MOST = 10, 5  # kinds, and in an utterance
LEAST = 2
LENGTH = 3600
BANDS, WIDTH = WINDOW // 2, 96
_TRAINED, _TESTED = 4096, 96


class Recogniser(nn.Module):
    """Every second frame of the spectrogram becomes scores of a blank and the digits."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(1, 16, (5, 5), (2, 2), (2, 2)), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 16, (5, 3), (2, 1), (2, 1)), nn.BatchNorm2d(16), nn.ReLU(),
        )  # fmt: skip
        self.listen = nn.GRU(16 * BANDS // 4, WIDTH, bidirectional=True, batch_first=True)
        self.tell = nn.Linear(2 * WIDTH, 1 + DIGITS)

    def forward(self, sound: Tensor) -> Tensor:
        seen = self.look(spectrogram(sound).unsqueeze(1))
        heard, _ = self.listen(seen.flatten(1, 2).transpose(1, 2))
        scores: Tensor = self.tell(heard).log_softmax(-1)
        return scores


def spectrogram(sound: Tensor) -> Tensor:
    """Loudness of each band in each frame, in logarithms."""
    waves = torch.stft(
        sound, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True
    ).abs()
    return (waves[:, :BANDS] + 0.1).log()


def build(setup: Setup) -> Training:
    test, model = spoken(_TESTED, 2), replicated(Recogniser(), setup)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        sound, digits, counts = batch
        scores = model(sound).transpose(0, 1)
        lengths = torch.full_like(counts, len(scores))
        return functional.ctc_loss(scores, digits, lengths, counts, zero_infinity=True)

    data = endless(spoken(setup.samples or _TRAINED, 1), setup)
    return supervised(loss, optimizer, data, lambda: error_rate(model, test))


def spoken(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sound, digits from 1 on filled with 0, and how many they are."""
    random = drawn(seed)
    digits = 1 + torch.randint(DIGITS, (count, MOST), generator=random)
    counts = torch.randint(LEAST, MOST + 1, (count,), generator=random)
    said = torch.arange(MOST) < counts.unsqueeze(1)
    lasts = torch.randint(RATE // 10, RATE * 15 // 100, (count, MOST), generator=random)
    pauses = torch.randint(RATE // 50, RATE // 25, (count, MOST), generator=random)
    begins = (pauses + lasts).cumsum(1) - lasts
    at = torch.arange(LENGTH)
    sound = 0.1 * torch.randn(count, LENGTH, generator=random)
    for place in range(MOST):
        inside = (at >= begins[:, place, None]) & (at < (begins + lasts)[:, place, None])
        voice = _tones(digits[:, place], at, random) * inside
        sound += voice * said[:, place, None]
    return sound, digits * said, counts


def _tones(digit: Tensor, at: Tensor, random: torch.Generator) -> Tensor:
    """Two tones of each digit, a little off and not always as loud."""
    low = 250.0 + 70.0 * ((digit - 1) % 5)
    high = 900.0 + 130.0 * ((digit - 1) // 5) + 60.0 * ((digit - 1) % 5)
    off = 1 + 0.02 * torch.randn(len(digit), 2, generator=random)
    loud = 0.5 + 0.5 * torch.rand(len(digit), 1, generator=random)
    turn = 2 * torch.pi / RATE * at
    one = (low * off[:, 0]).unsqueeze(1) * turn
    return loud * (one.sin() + ((high * off[:, 1]).unsqueeze(1) * turn).sin())


def error_rate(model: nn.Module, test: tuple[Tensor, Tensor, Tensor]) -> float:
    """Digits that must be changed, over digits that were said."""
    sound, digits, counts = test
    with Judging(plain(model)):
        best = plain(model)(sound).argmax(-1).tolist()
    pairs = zip(best, digits.tolist(), counts.tolist())
    return sum(distance(heard(row), said[:n]) for row, said, n in pairs) / int(counts.sum())


def heard(frames: list[int]) -> list[int]:
    """A digit for each run of frames that tell it."""
    changes = (b for a, b in zip([0, *frames], frames) if a != b)
    return [digit for digit in changes if digit]


def distance(one: list[int], other: list[int]) -> int:
    """Least insertions, deletions and replacements from one to the other."""
    row = list(range(len(other) + 1))
    for at, mine in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, theirs in enumerate(other, 1):
            found = min(row[place] + 1, row[place - 1] + 1, before + (mine != theirs))
            before, row[place] = row[place], found
    return row[-1]


WORKLOAD = Workload(
    name="speech",
    domain=Domain.SPEECH,
    model=f"two convolutions, a GRU of {WIDTH} in both directions, CTC",
    data="made audio of two to five digits at 4 kHz",
    quality=Quality("digit error rate", 0.08, at_least=False),
    pace=Pace(batch=16, batches=(4, 8, 16, 32, 64), steps=1200, every=50),
    build=build,
)

if __name__ == "__main__":
    train(WORKLOAD)
