"""Models that a script moves or casts before it trains, as trainers do."""

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.graph import DType, OpKind
from paceline.imagine.imagine import ScriptJob, imagine

pytest.importorskip("torch")
pytestmark = pytest.mark.live

TIED = """
import weakref
import torch

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(32, 8)
        self.head = torch.nn.Linear(8, 32, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.head(self.words(x))

model = Tied()
watched = weakref.ref(model.words.weight)
model = model.to("cpu").to(torch.bfloat16)
assert watched() is model.words.weight is model.head.weight
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.randint(0, 32, (4, 6))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

TRAINER = """
import torch, transformers

config = transformers.GPT2Config(vocab_size=128, n_positions=32, n_embd=32, n_layer=2, n_head=2)
model = transformers.GPT2LMHeadModel(config)
words = torch.randint(0, 128, (64, 16))
rows = [{"input_ids": row, "labels": row} for row in words]
settings = transformers.TrainingArguments(
    output_dir="out", per_device_train_batch_size=2, use_cpu=True, report_to=[], save_strategy="no"
)
transformers.Trainer(model=model, args=settings, train_dataset=rows).train()
"""


def test_tied_weights_that_somebody_watches_stay_one_tensor_when_moved_and_cast(
    tmp_path: Path,
) -> None:
    script = tmp_path / "tied.py"
    script.write_text(TIED)
    graph = imagine(ScriptJob((str(script),), 4))
    sent = graph.ops.kind == OpKind.COLLECTIVE
    assert graph.ops.size_bytes[sent].tolist() == [32 * 8 * 2]  # once, in half precision
    assert set(graph.ops.dtype[sent].tolist()) == {DType.BFLOAT16}


@pytest.mark.needs("transformers")
def test_a_hugging_face_trainer_is_imagined_without_a_change(tmp_path: Path) -> None:
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    graph = imagine(ScriptJob((str(script),), 4))
    assert graph.ops.size_bytes[graph.ops.kind == OpKind.COLLECTIVE].max() > 100_000
    assert any("h.1.attn" in graph.text(layer) for layer in set(graph.ops.layer.tolist()))


def test_variables_of_the_imagined_rank_are_put_back() -> None:
    told = (
        "import os\n"
        "from paceline.imagine.torch_session import Session, ImagineSettings\n"
        "from paceline.imagine.torch_world import environment\n"
        "os.environ['RANK'] = '7'\n"
        "names = environment(3, 4)\n"
        "before = [os.environ.get(name) for name in names]\n"
        "with Session(ImagineSettings(rank=3, world_size=4)):\n"
        "    assert os.environ['RANK'] == '3'\n"
        "assert [os.environ.get(name) for name in names] == before\n"
    )
    subprocess.run([sys.executable, "-c", told], check=True)
