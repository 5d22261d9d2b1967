"""Workers of a run of four clients below their seats; one kills itself in its fourth round.

torchrun --nproc-per-node 2 dying_worker.py OUT ALGORITHM [--sums] [--first]
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import Toy
from paceline.learn import run, save
from paceline.learn.seat import crash_visibly, is_seated, seated
from paceline.learn.softmax import Softmax

ROUNDS, DIES_IN = 12, 3
DIES = "0" if "--first" in sys.argv else "1"


class Dying(Softmax):
    """Worker 1's dies when it is asked for the gradients of its fourth round."""

    steps_a_round = 1
    asked = 0

    def gradient(self, weights, rows, stage=None):
        self.asked += 1
        if os.environ["RANK"] == DIES and self.asked > DIES_IN * self.steps_a_round:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().gradient(weights, rows, stage)


def main() -> int:
    out, text = Path(sys.argv[1]), sys.argv[2]
    if not is_seated(os.environ):
        return seated([sys.executable, *sys.argv], os.environ)
    crash_visibly()
    from dataclasses import replace

    from paceline.learn.torch_workers import joined_workers

    toy = Toy()
    learner = Dying(toy.clouds(), toy.clouds(seed=1))
    task = replace(toy.task(text, ROUNDS), learner=learner)
    own = len(range(1, 4, int(os.environ["WORLD_SIZE"])))  # worker 1's clients
    learner.steps_a_round = own * task.algorithm.steps
    with joined_workers("--sums" in sys.argv) as carrier:
        made = run(task, carrier)
    if not carrier.rank:
        save([made], out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
