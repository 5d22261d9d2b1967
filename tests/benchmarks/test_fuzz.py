"""The fuzzer's targets work: they read their own seeds, and mutations end in clear errors only."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, random, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from benchmarks.fuzz import guarded, in_memory, mutated
from benchmarks.fuzz_targets import TARGETS
chance = random.Random(1)
counts = {}
for name, target in TARGETS.items():
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        attempt = guarded(target(Path(folder)))
        seeds = [p.read_bytes() for p in sorted((Path(folder) / "seeds").iterdir())]
        for _ in range(40):
            attempt(mutated(chance.choice(seeds), chance))
        counts[name] = len(seeds)
print(json.dumps(counts))
"""


def test_every_reader_survives_mutated_seeds() -> None:
    command = [sys.executable, "-c", SCRIPT, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)
    assert set(counts) >= {"graph-header", "graph-table", "chakra-trace", "chakra-beside"}
    assert all(counts.values())
