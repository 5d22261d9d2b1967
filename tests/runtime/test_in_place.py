"""ReLUs over their batch norm's result: the same numbers, or a word that they would not be."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from paceline.runtime.torch_in_place import relus_in_place  # noqa: E402
from paceline.runtime.torch_norm_pairs import PairError  # noqa: E402


class Fickle(nn.Module):
    """Another layer reads the norm's result too, if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.both = nn.BatchNorm1d(3), False

    def forward(self, given: Any) -> Any:
        made = self.norm(given)
        cut = torch.relu(made)
        return cut + made if self.both else cut


def test_a_relu_writes_over_what_the_norm_made() -> None:
    model, given = Fickle(), torch.randn(2, 3, 4)
    plain = model(given)
    with relus_in_place(model):
        model(given)  # watched
        made = model(given)
    assert torch.equal(made, plain)
    assert "Relu" in made.grad_fn.next_functions[0][0].name()


def test_what_is_read_beside_the_relu_later_is_noticed() -> None:
    model, given = Fickle(), torch.randn(2, 3, 4)
    with relus_in_place(model):
        model(given)
        model.both = True
        with pytest.raises(PairError, match="elsewhere in a later one; leave batchnorm_relu out"):
            model(given)
