"""A stage by itself: weight versions, recomputation, live bytes, cutting, seats."""

import pytest

torch = pytest.importorskip("torch", reason="stages compute with torch")
nn = torch.nn


def linear(weight: float) -> "torch.nn.Linear":
    made = nn.Linear(1, 1, bias=False)
    nn.init.constant_(made.weight, weight)
    return made


def test_two_versions_follow_the_delayed_update_by_hand() -> None:
    """f = w^2 / 2, so grad f(w) = w; W(t+1) = W(t) - 0.5 W(max(t-1, 0)) from 8."""
    from paceline.runtime.stages.torch_versions import WeightVersions

    module = linear(8.0)
    versions = WeightVersions(module, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    seen = []
    for batch in range(4):
        used = max(batch - 1, 0)
        (versions.leaves(used)["weight"] ** 2 / 2).sum().backward()
        versions.update(optimizer, used)
        seen.append(module.weight.item())
    assert seen == [4.0, 0.0, -2.0, -2.0]


def test_an_older_version_that_is_overwritten_cannot_be_asked_for() -> None:
    from paceline.runtime.stages.torch_versions import WeightVersions

    module = linear(1.0)
    versions = WeightVersions(module, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for used in (0, 0):
        (versions.leaves(used)["weight"] * 1.0).sum().backward()
        versions.update(optimizer, used)
    with pytest.raises(AssertionError, match="version 0 is not kept"):
        versions.leaves(0)


def test_recomputation_keeps_the_input_alone_and_changes_no_gradient() -> None:
    """Dropout falls the same way the second time."""
    from paceline.runtime.stages.torch_live import LiveBytes
    from paceline.runtime.stages.torch_stage import Piece, Stage

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 64), nn.Tanh())
    leaves = dict(module.named_parameters())
    found, kept = [], []
    for recompute in (False, True):
        torch.manual_seed(5)
        stage = Stage(Piece(module, recompute=recompute))
        given = torch.randn(32, 64).requires_grad_()
        with LiveBytes() as live:
            made = stage.forward(0, given, leaves)
            kept.append(live.bytes)
        torch.manual_seed(99)
        found.append(stage.backward(0, torch.ones_like(made)))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)
    rows = 32 * 64 * 4
    random_state = torch.get_rng_state().numel()
    assert kept[1] <= rows + random_state < 3 * rows <= kept[0]


def test_live_bytes_count_what_autograd_keeps_and_forget_what_is_freed() -> None:
    from paceline.runtime.stages.torch_live import LiveBytes

    weight = torch.ones(100, 100, requires_grad=True)
    with LiveBytes() as live:
        made = (weight * 2).exp()
        assert live.bytes == 40_000  # exp keeps its result; the product is gone
        view = made[:10]
        assert live.bytes == 40_000
        del made
        assert live.bytes == 40_000
        del view
        assert live.bytes == 0


@pytest.mark.parametrize("stages", [0, 3])
def test_stages_that_do_not_divide_are_refused(stages: int) -> None:
    from paceline.runtime.stages import PipelineError
    from paceline.runtime.stages.torch_cut import cut

    model = nn.Sequential(*[nn.ReLU() for _ in range(8)])
    with pytest.raises(PipelineError, match=r"8 layers do not divide .* out of \[1, 2, 4, 8\]"):
        cut(model, stages)


def test_a_rank_without_a_seat_is_refused() -> None:
    from paceline.runtime.stages import PipelineError
    from paceline.runtime.stages.torch_links import Seat

    assert (Seat(5, 4, 2).stage, Seat(5, 4, 2).replica) == (1, 1)
    with pytest.raises(PipelineError, match="rank 8 has no seat in 2 replicas of 4 stages"):
        Seat(8, 4, 2)


def test_layers_are_measured_in_turn_on_a_clock_of_ones_choice() -> None:
    """A clock that tells one more each time: every pass and every update takes 1."""
    from functools import partial
    from itertools import count

    from paceline.runtime.stages.torch_profile import Sample, TrainedLayer, measure_layers

    ticks, order = count(), list[str]()

    def noted(name: str, _: nn.Module, __: object, made: torch.Tensor) -> None:
        order.append(name)
        made.register_hook(lambda _: order.append(name.upper()))

    made = [nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False)]
    layers = []
    for name, module in zip("ab", made):
        module.register_forward_hook(partial(noted, name))
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        layers.append(TrainedLayer(name, module, Sample(torch.ones(3, 4), name == "a"), optimizer))
    found = measure_layers(layers, microbatches=2, repeats=3, clock=lambda: next(ticks))
    assert [(one.forward_ns, one.backward_ns, one.update_ns) for one in found] == [(1, 1, 1)] * 2
    assert [(one.weight_bytes, one.input_bytes, one.output_bytes) for one in found] == [
        (64, 48, 48),
        (32, 48, 24),
    ]
    assert "".join(order) == "aAbB" + "abBA" * 2 * 4  # for sizes alone first, then in batches
