"""Graph networks in parts: parts make the whole, halos go where they belong, rounding is fair."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.learn import LearnError, Samples
from paceline.learn.graphs import Attributed, Neighbourhood, nearest_neighbours, parted, parts_of


def ring(nodes: int = 8) -> Attributed:
    """Each node between two others, with features of four numbers."""
    drawn = np.random.default_rng(0)
    samples = Samples(drawn.normal(size=(nodes, 4)).astype(np.float32), np.arange(nodes) % 2)
    edges = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes], axis=1)
    return Attributed.of_edges(samples, edges, 0.5, seed=1)


def test_parts_make_the_whole_and_halos_are_their_neighbours() -> None:
    graph = ring()
    made = parts_of(graph, parted(graph, 2, "greedy"))
    assert sorted(np.concatenate([part.nodes for part in made.each]).tolist()) == list(range(8))
    for part in made.each:
        reached = {int(n) for node in part.nodes for n in graph.to[2 * node : 2 * node + 2]}
        assert reached - set(part.nodes.tolist()) == set(part.halo.tolist())


@given(seed=st.integers(0, 30), count=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_what_one_part_sends_is_what_the_other_takes(toy, seed: int, count: int) -> None:
    graph = nearest_neighbours(toy.clouds(40, seed), Neighbourhood(3))
    parts = parts_of(graph, parted(graph, count, "greedy"))
    for part in parts.each:
        for other, rows in part.takes.items():
            theirs = parts.each[other]
            assert np.array_equal(theirs.nodes[theirs.sends[part.number]], part.halo[rows])


@pytest.mark.needs("pymetis")
def test_metis_cuts_no_more_than_the_greedy_way(toy) -> None:
    graph = nearest_neighbours(toy.clouds(), Neighbourhood(5))
    assert parted(graph, 3, "metis").cut_share <= parted(graph, 3, "greedy").cut_share


def test_a_graph_in_pieces_is_said_to_be() -> None:
    samples = Samples(np.ones((4, 2), np.float32), np.array([0, 1, 0, 1]))
    graph = Attributed.of_edges(samples, np.array([[0, 1], [2, 3]]), 0.5, 1)
    assert any("2 pieces" in note for note in parted(graph, 2, "greedy").notes)
    with pytest.raises(LearnError, match="cannot lie in 5 parts"):
        parted(graph, 5)
    with pytest.raises(LearnError, match="joins nodes 0 to 4, and there are 4 nodes"):
        Attributed.of_edges(samples, np.array([[0, 4]]), 0.5, 1)


@pytest.mark.needs("torch")
def test_what_is_to_be_known_of_a_graph_is_kept_with_the_run_and_shown(toy) -> None:
    from paceline.learn.arms import arms
    from paceline.learn.graphs.network import GraphNetwork
    from paceline.learn.graphs.torch_training import GraphTask, train
    from paceline.report.text.learn import arm_lines

    edges = np.stack([np.arange(60), (np.arange(60) + 2) % 60], axis=1)  # two rings
    graph = Attributed.of_edges(toy.clouds(60), edges, 0.5, 1)
    found = train(GraphTask(parts_of(graph, parted(graph, 2, "greedy")), GraphNetwork(), 3))
    assert any("2 pieces" in line for line in arm_lines(arms([found])))


@pytest.mark.needs("torch")
@given(bits=st.sampled_from((1, 2, 4, 8)), seed=st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_rounded_rows_stay_within_a_step_and_are_right_in_the_mean(bits: int, seed: int) -> None:
    from paceline.learn.graphs.torch_rounding import Dice, Rounding

    drawn = np.random.default_rng(seed)
    rows = drawn.normal(size=(3, 7)).astype(np.float32)
    how, dice = Rounding(bits), Dice(drawn)
    tries = [how.restored(how.packed(rows, dice), 7) for _ in range(400)]
    step = (rows.max(axis=1) - rows.min(axis=1)) / (2**bits - 1)
    assert (np.abs(np.array(tries) - rows).max(axis=(0, 2)) <= 1.001 * step + 1e-6).all()
    apart = np.abs(np.mean(tries, axis=0) - rows).max(axis=1)
    assert (apart < 0.15 * step + 1e-6).all()  # 6 standard errors of 400 tries, at most half a step


@pytest.mark.needs("torch")
def test_one_bit_names_the_nearer_of_a_rows_two_means() -> None:
    from paceline.learn.graphs.torch_rounding import Dice, Rounding

    rows = np.array([[0, 0, 1, 3], [2, 2, 2, 2], [-4, 0, 0, 0]], np.float32)
    how, dice = Rounding(1, means=True), Dice(np.random.default_rng(0))
    found = how.restored(how.packed(rows, dice), 4)
    third = 1 / 3
    assert np.allclose(found, [[third, third, third, 3], [2, 2, 2, 2], [-4, 0, 0, 0]], atol=1e-6)


@pytest.mark.needs("torch")
@given(seed=st.integers(0, 50), columns=st.integers(1, 70))
@settings(max_examples=25, deadline=None)
def test_two_means_keep_each_rows_sum_and_are_nearer_than_chance(seed: int, columns: int) -> None:
    """Nearer over many rows: of nine, chance came nearer in three of all 3,570 cases."""
    from paceline.learn.graphs.torch_rounding import Dice, Rounding

    drawn = np.random.default_rng(seed)
    rows = np.maximum(drawn.normal(size=(100, columns)), 0).astype(np.float32)
    dice = Dice(drawn)
    means, chance = (Rounding(1, means=which) for which in (True, False))
    found, other = (how.restored(how.packed(rows, dice), columns) for how in (means, chance))
    assert np.allclose(found.sum(axis=1), rows.sum(axis=1), atol=1e-4)
    assert ((found - rows) ** 2).sum() <= ((other - rows) ** 2).sum() + 1e-6
    assert means.packed(rows, dice).size_bytes == chance.packed(rows, dice).size_bytes


@pytest.mark.needs("torch")
def test_one_bit_rows_are_as_small_as_they_say() -> None:
    from paceline.learn.graphs.torch_rounding import Dice, Rounding

    rows, dice = np.ones((10, 64), np.float32), Dice(np.random.default_rng(0))
    assert Rounding(1).packed(rows, dice).size_bytes == 10 * (8 + 8)
    assert Rounding(32).packed(rows, dice).size_bytes == 10 * 256


@pytest.mark.needs("torch")
def test_dice_give_every_number_the_same_chances_and_as_many_as_asked() -> None:
    """Each reading is a stretch of the same ring, whose numbers are evenly spaced; a stretch longer
    than the ring goes round."""
    from paceline.learn.graphs.torch_rounding import Dice

    dice = Dice(np.random.default_rng(3))
    round_ = dice.cast(Dice.SIZE).numpy()
    assert np.allclose(np.sort(round_) * Dice.SIZE, np.arange(Dice.SIZE) + 0.5, atol=0.1)
    assert round_.min() > 0
    assert round_.max() < 1
    longer = dice.cast(2 * Dice.SIZE + 3).numpy()
    assert len(longer) == 2 * Dice.SIZE + 3
    assert np.array_equal(longer[: Dice.SIZE], longer[Dice.SIZE : 2 * Dice.SIZE])
    assert not np.array_equal(round_, longer[: Dice.SIZE])  # begun somewhere else


def trained(toy, parts: int, **how):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from paceline.learn.carrier import Alone
    from paceline.learn.graphs.network import GraphNetwork
    from paceline.learn.graphs.torch_training import GraphTask, _Training

    graph = nearest_neighbours(toy.clouds(120), Neighbourhood(5))
    network = GraphNetwork(hidden=8, **how)
    driver = _Training(GraphTask(parts_of(graph, parted(graph, parts, "greedy")), network, 30),
                       Alone())  # fmt: skip
    for epoch in range(30):
        right = driver.epoch(epoch)
    driver.judge(29, right, None)
    return driver


@pytest.mark.needs("torch")
@pytest.mark.parametrize("layer", ["gcn", "sage"])
def test_parts_learn_what_the_whole_graph_learns(toy, layer: str) -> None:
    from paceline.learn.graphs.network import GraphConvolution

    whole, parts = (trained(toy, n, layer=GraphConvolution(layer)) for n in (1, 3))
    for one, other in zip(whole.nets[0].parameters(), parts.nets[2].parameters()):
        assert np.allclose(one.detach(), other.detach(), atol=2e-3)


@pytest.mark.needs("torch")
def test_one_bit_and_stale_halos_still_learn_with_fewer_bytes(toy) -> None:
    plain, bits, stale = (
        trained(toy, 3, **how) for how in ({}, {"bits": 1}, {"bits": 1, "stale": 4})
    )
    assert plain.judged[-1].accuracy > 0.8
    for other in (bits, stale):
        assert other.judged[-1].accuracy > plain.judged[-1].accuracy - 0.08
        assert other.sent < plain.sent


@pytest.mark.needs("torch")
def test_replicas_that_part_are_named(toy) -> None:
    driver = trained(toy, 2)
    next(driver.nets[1].parameters()).data += 1
    with pytest.raises(LearnError, match="weights of part 1"):
        driver.judge(30, (0, 1), None)


@pytest.mark.needs("torch")
@given(seed=st.integers(0, 30), rows=st.integers(1, 9), columns=st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_a_sparse_matrix_times_rows_is_the_product_there_and_back(
    seed: int, rows: int, columns: int
) -> None:
    """Empty rows and columns among them."""
    import torch

    from paceline.learn.graphs.torch_sparse import BothWays

    drawn = np.random.default_rng(seed)
    dense = drawn.normal(size=(rows, columns)) * (drawn.random((rows, columns)) < 0.4)
    places = drawn.permutation(np.argwhere(dense), axis=0)
    values = dense[places[:, 0], places[:, 1]]
    both = BothWays.of(places, values, (rows, columns))
    for matrix, sparse in ((dense, both.there), (dense.T, both.back)):
        other = torch.from_numpy(drawn.normal(size=(matrix.shape[1], 3)).astype(np.float32))
        assert np.allclose(sparse.times(other).numpy(), matrix @ other.numpy(), atol=1e-5)


@pytest.mark.needs("torch")
def test_gradients_bring_later_what_two_means_left_out_of_them() -> None:
    """All that came home is all that was sent but for what is left of the last epoch: without that
    memory the same error is made in each."""
    import torch

    from paceline.learn.carrier import Alone
    from paceline.learn.graphs.network import GraphNetwork
    from paceline.learn.graphs.torch_halo import Halos

    parts = parts_of(ring(), parted(ring(), 2, "greedy"))
    drawn, epochs = np.random.default_rng(1), 40
    slopes = [torch.from_numpy(drawn.normal(size=(len(part.halo), 6)).astype(np.float32))
              for part in parts.each]  # fmt: skip
    owned = [len(part.nodes) for part in parts.each]

    def came(bits: int, means: bool) -> list[np.ndarray]:
        halos = Halos(GraphNetwork(bits=bits, means=means), parts.each, Alone())
        homes = [halos.home(1, slopes, owned) for _ in range(epochs)]
        return [sum(home[part].numpy() for home in homes) for part in range(2)]

    for exact, found in zip(came(32, False), came(1, True)):
        assert np.abs(found - exact).max() < 3 * float(slopes[0].abs().max())
        assert not np.array_equal(found, exact)
