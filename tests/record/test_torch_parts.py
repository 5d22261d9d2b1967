"""Parts of the recorder that need torch but no job: wrapping, spelling, link speeds."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
import torch.distributed as dist

from paceline.record.torch_facts import clean_path, link_speeds, model_facts
from paceline.record.torch_flight import canonical
from paceline.record.torch_memory import standing, storages_of
from paceline.record.torch_patch import Patches


class Door:
    """Something to wrap."""

    def enter(self, name: str) -> str:
        return f"hello {name}"


def loudly(original):  # type: ignore[no-untyped-def]
    return lambda *args: original(*args).upper()


def test_a_wrapped_method_is_its_old_self_after_undo() -> None:
    before, patches = vars(Door)["enter"], Patches()
    patches.wrap(Door, "enter", loudly)
    assert Door().enter("you") == "HELLO YOU"
    patches.undo()
    assert vars(Door)["enter"] is before


def test_a_native_method_still_binds_its_object_after_undo() -> None:
    before, patches = vars(dist.Work)["wait"], Patches()
    patches.wrap(dist.Work, "wait", loudly)
    patches.undo()
    assert vars(dist.Work)["wait"] is before


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("all_reduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("ALLTOALL_BASE", "all_to_all"),
        ("reduce", "reduce"),
        ("quantum_leap", "quantum_leap"),
    ],
)
def test_each_operation_has_one_spelling(spelled: str, meant: str) -> None:
    assert canonical(spelled) == meant


def test_wrappers_leave_no_trace_in_a_modules_path() -> None:
    assert clean_path("module._orig_mod.layers.3.linear1") == "layers.3.linear1"


def test_a_link_without_a_speed_counts_as_unknown(tmp_path: Path) -> None:
    for name, speed in (("eth0", "10000\n"), ("lo", None), ("veth", "-1\n")):
        (tmp_path / name).mkdir()
        if speed is not None:
            (tmp_path / name / "speed").write_text(speed)
    assert link_speeds(tmp_path) == {"eth0": 10_000_000_000, "lo": 0, "veth": 0}


@dataclass
class Node:
    """An argument as a graph network or a tree has it."""

    features: torch.Tensor
    root: Any = None


def test_tensors_are_found_in_whatever_holds_them() -> None:
    shared = torch.zeros(10)
    found = storages_of(({"a": Node(shared)}, [shared[:5], torch.zeros(3)], "b", Node))
    assert sorted(found.values()) == [12, 40], "a storage counts once, in whole"


def test_an_argument_that_leads_back_to_itself_is_looked_at_all_the_same() -> None:
    node = Node(torch.zeros(10))
    node.root = node
    assert list(storages_of(node).values()) == [40]


def test_what_stands_is_of_all_optimizers_and_gradients_of_the_one_that_leads() -> None:
    """As of adversarial networks, where a generator and a critic have one each."""
    models = []
    for _ in range(2):
        net = torch.nn.Linear(10, 10, bias=False)
        optimizer = torch.optim.Adam(net.parameters())
        net(torch.ones(1, 10)).sum().backward()
        optimizer.step()
        models.append(model_facts(optimizer))
    held = standing(replace(models[0], beside=(models[1],)))
    assert held.weights == 2 * 400
    assert held.optimizer == 2 * (400 + 400 + 4)
    assert held.gradients == 400
