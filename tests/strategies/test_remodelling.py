"""What is said where no layer of a job can be made of other weights."""

import pytest

from paceline.graph import Basis, Facts, Graph, GraphBuilder, Parameter, Role
from paceline.graph.variants import Ratio, Variant
from paceline.strategies import StrategyError, parse
from paceline.strategies.block_circulant import BlockCirculant


def job(*parameters: Parameter, ratios: tuple[Ratio, ...] = ()) -> Graph:
    b = GraphBuilder(facts=Facts(world_size=1, parameters=parameters, ratios=ratios))
    b.op("mm", b.lane(), 5)
    return b.build()


def weight(layer: str, shape: tuple[int, ...], role: Role) -> Parameter:
    return Parameter(f"{layer}.weight", 4, shape, layer, role)


def test_a_job_without_linear_layers_is_told_so() -> None:
    with pytest.raises(StrategyError, match="the recording names no linear layers"):
        parse("block_circulant").transform(job(weight("norm", (8,), Role.OTHER)))


def test_settings_that_fit_no_layer_are_told_the_first_six_with_their_shapes() -> None:
    image = weight("conv", (3, 5, 7, 7), Role.CONVOLUTION_WEIGHT)
    layers = (weight(str(n), (10 + n, 7), Role.LINEAR_WEIGHT) for n in range(5))
    with pytest.raises(StrategyError) as told:
        parse("block_circulant(block=4)").transform(job(*layers, image))
    shown = "0 (10 x 7), 1 (11 x 7), 2 (12 x 7), 3 (13 x 7), 4 (14 x 7), conv (3 x 5 x 7 x 7)"
    assert f"fits none of the layers {shown}; give" in str(told.value)
    with pytest.raises(StrategyError) as told:
        parse("block_circulant(block=4)").transform(job(*[image] * 7))
    assert str(told.value).count("conv") == 6


def test_circulant_layers_take_what_was_measured_of_their_kind_and_other_blocks_by_operations() -> (
    None
):
    line = weight("line", (64, 32), Role.LINEAR_WEIGHT)
    image = weight("conv", (16, 8, 3, 3), Role.CONVOLUTION_WEIGHT)
    measured = tuple(
        Ratio(name, Variant.CIRCULANT, value, value, value)
        for name, value in (("Linear", 0.75), ("Linear backward", 0.5))
    )
    graph = job(line, image, ratios=measured)
    (made,) = BlockCirculant().told(graph, line)
    assert (made.work, made.back, made.basis) == (0.75, 0.5, Basis.MEASURED)
    (counted,) = BlockCirculant().told(graph, image)
    assert (counted.back, counted.basis) == (None, Basis.ARITHMETIC)

    (eight,), (sixteen,) = (
        BlockCirculant(8).factors(line.shape),
        BlockCirculant(16).factors(line.shape),
    )
    (larger,) = BlockCirculant(16).told(graph, line)
    assert larger.shape == sixteen.shape
    assert larger.work == pytest.approx(0.75 * sixteen.work / eight.work)
    (small,) = BlockCirculant(2).told(graph, weight("few", (4, 4), Role.LINEAR_WEIGHT))
    assert small.work > 0
    assert not list(BlockCirculant().rests_on(graph))
    (said,) = BlockCirculant().rests_on(job(line))
    assert "paceline measure --for RUN" in said
