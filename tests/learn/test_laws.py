"""The law of each algorithm: what its paper's formula makes true whatever is trained."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.learn import ByClass, Chances, Client, LearnError, Setting, algorithm, run, speeds
from paceline.learn.algorithm import mean
from paceline.learn.algorithms.feddst import FedDst
from paceline.learn.algorithms.progfed import ProgFed, _inherit
from paceline.learn.algorithms.skewscout import Tuner
from paceline.learn.carrier import Alone
from paceline.learn.learner import TensorSpan
from paceline.learn.masks import largest_kept, quotas, readjusted
from paceline.learn.message import Message, packed, unpacked
from paceline.learn.peers_run import PeersRun
from paceline.learn.served_run import ServedRun
from paceline.learn.softmax import Softmax
from paceline.learn.tight import Some, packed_tight, rounded, unpacked_tight


def served(task, rounds: int = 5):
    """A run of a server's clients, with all that it remembers."""
    driver = ServedRun(task, Alone())
    for number in range(rounds):
        driver.round(number)
    return driver


def peers(task, rounds: int = 5):
    driver = PeersRun(task, Alone())
    for number in range(rounds):
        driver.round(number)
    return driver


def test_fedprox_with_mu_0_is_fedavg(toy) -> None:
    one, other = (served(toy.task(text)).server for text in ("fedavg", "fedprox(mu=0.0)"))
    assert np.array_equal(one["weights"], other["weights"])


def test_a_larger_mu_keeps_clients_nearer_to_the_server(toy) -> None:
    def drift(text: str) -> float:
        task = toy.task(text, how=ByClass())
        driver = served(task, 1)
        return float(np.linalg.norm(driver.server["weights"]))

    assert drift("fedprox(mu=10.0, momentum=0.0)") < drift("fedprox(mu=0.1, momentum=0.0)")


def test_fedavg_with_one_client_is_that_clients_own_descent(toy) -> None:
    driver = served(toy.task("fedavg(momentum=0.0)", clients=1), 2)
    learner, client = toy.learner(), Client.of(0, toy.dealt(1).rows[0], 1)
    weights = learner.start(1)
    for _ in range(20):
        weights -= np.float32(0.05) * learner.gradient(weights, client.batch(20)).values
    assert np.allclose(driver.server["weights"], weights, atol=1e-6)


def test_server_momentum_0_and_rate_1_is_the_mean(toy) -> None:
    one = served(toy.task("fedavg")).server
    other = served(toy.task("fedavg(server_momentum=0.5)"), 1).server
    first = served(toy.task("fedavg"), 1).server
    assert np.allclose(other["weights"], first["weights"], atol=1e-6)  # the first step has none
    assert not np.allclose(served(toy.task("fedavg(server_momentum=0.5)")).server["weights"],
                           one["weights"], atol=1e-4)  # fmt: skip


def test_scaffolds_control_is_the_mean_of_all_clients_controls(toy) -> None:
    task = replace(toy.task("scaffold", how=ByClass()), chances=_two_of_four())
    driver = served(task, 6)
    zero = np.zeros(driver.at.learner.trained, np.float32)
    controls = [client.keeps.get("control", zero) for client in driver.mine.values()]
    corrections = sum(driver.server["control"] - control for control in controls)
    assert np.abs(corrections).max() < 1e-4 * max(1.0, np.abs(controls).max())


def test_scaffold_drifts_less_than_fedavg_where_classes_are_apart(toy) -> None:
    def spread(text: str) -> float:
        driver = served(toy.task(text, 8, how=ByClass()), 7)
        handed = {p.targets[0]: p.message for p in driver._hand_outs(range(4), 7)}
        out = [driver.how.train(driver.at, driver.mine[n], handed[n], 7) for n in range(4)]
        weights = np.stack([message.vectors["weights"] for message in out])
        return float(np.linalg.norm(weights - weights.mean(axis=0)))

    assert spread("scaffold(steps=20)") < 0.7 * spread("fedavg(steps=20, momentum=0.0)")


def test_gaia_with_threshold_0_is_synchronous_sgd(toy) -> None:
    gaia, plain = (peers(toy.task(text)) for text in ("gaia(threshold=0.0)", "synchronous"))
    for number in range(4):
        assert np.allclose(gaia.mine[number].weights, plain.mine[number].weights, atol=1e-5)


def test_a_higher_threshold_sends_less(toy) -> None:
    sent = [run(toy.task(f"gaia(threshold={t})", 12)).sent_bytes for t in (0.0, 0.05, 0.5)]
    assert sent == sorted(sent, reverse=True)
    assert sent[0] > sent[2]


def test_what_gaia_holds_back_is_not_lost(toy) -> None:
    """What a client has moved is what it sent and what waits."""
    driver = peers(toy.task("gaia(threshold=0.3)", 6, clients=1), 6)
    client = driver.mine[0]
    start = driver.at.learner.start(1)
    sent = client.weights - start - client.keeps["waiting"]
    mine = np.zeros_like(start)
    again = PeersRun(toy.task("gaia(threshold=0.3)", 6, clients=1), Alone())
    for number in range(6):
        message = again.how.train(again.at, again.mine[0], number)
        mine[message.vectors["places"]] += message.vectors["values"]
    assert np.allclose(sent, mine, atol=1e-6)


@pytest.mark.needs("torch")
def test_dgc_that_sends_all_is_synchronous_sgd(toy) -> None:
    text = "dgc(ratio=1.0, warmup=0)"
    dgc, plain = (peers(toy.task(each)) for each in (text, "synchronous"))
    assert np.allclose(dgc.mine[0].weights, plain.mine[0].weights, atol=1e-5)


def test_local_sgd_with_one_step_a_round_is_synchronous_sgd(toy) -> None:
    local, plain = (peers(toy.task(text)) for text in ("local_sgd(steps=1)", "synchronous"))
    assert np.allclose(local.mine[0].weights, plain.mine[0].weights, atol=1e-5)


@pytest.mark.needs("torch")
def test_diloco_with_outer_rate_1_and_no_momentum_is_local_sgd(toy) -> None:
    text = "diloco(outer_lr=1.0, outer_momentum=0.0, steps=10, momentum=0.0)"
    diloco, plain = (peers(toy.task(each)) for each in (text, "local_sgd(momentum=0.0)"))
    assert np.allclose(diloco.mine[0].weights, plain.mine[0].weights, atol=1e-5)


@pytest.mark.needs("torch")
def test_overlapped_clients_take_the_mean_of_the_round_before(toy) -> None:
    driver = PeersRun(toy.task("overlap_local_sgd"), Alone())
    driver.round(0)
    assert len(driver.under_way) == 1
    apart = driver.mine[0].weights.copy()
    driver.round(1)
    assert len(driver.under_way) == 1
    assert not np.array_equal(driver.mine[0].weights, apart)


def test_dlion_with_like_speeds_and_wide_links_is_synchronous_sgd(toy) -> None:
    text = "dlion(merge_every=0)"
    dlion, plain = (peers(toy.task(each)) for each in (text, "synchronous"))
    assert np.allclose(dlion.mine[2].weights, plain.mine[2].weights, atol=1e-5)


def test_a_dlion_client_that_dropped_out_takes_what_the_others_do(toy) -> None:
    """Links carry all, so clients stay alike, whoever was away; and one alone learns."""
    task = replace(toy.task("dlion(merge_every=0)", 12), chances=Chances(drops=0.5))
    driver = peers(task, 12)
    assert any(each.absent for each in driver.untold)
    for client in driver.mine.values():
        assert np.array_equal(client.weights, driver.mine[0].weights)
    alone, plain = (peers(toy.task(text, clients=1)) for text in ("dlion", "synchronous"))
    assert np.allclose(alone.mine[0].weights, plain.mine[0].weights, atol=1e-6)


def test_dlion_deals_the_batch_out_by_speed() -> None:
    made = algorithm("dlion(speeds=(1.0, 2.0, 5.0), batch=16)")
    assert [made.batch_of(n) for n in range(3)] == [6, 12, 30]


def test_dlion_measures_speeds_and_names_them(toy, monkeypatch) -> None:
    monkeypatch.setattr(speeds, "LEAST_S", 0.0)
    found = run(toy.task("dlion(lr=0.1, measures=True)", 3))
    assert found.algorithm == "dlion(lr=0.1, speeds=(1.0, 1.0, 1.0, 1.0))"
    assert run(toy.task(found.algorithm, 3)).judged == found.judged
    with pytest.raises(LearnError, match="given or measured"):
        algorithm("dlion(measures=True, speeds=(1.0, 1.0))")


def test_clients_of_one_worker_share_its_speed() -> None:
    """Of three clients the first and the last are worker 0's."""
    assert speeds.shared({0: 30.0, 1: 10.0}, Alone(workers=2), 3) == (1.0, 0.67, 1.0)


def test_a_workers_speed_is_told_by_the_clock(toy) -> None:
    ticks = iter(range(100))
    assert speeds._rate(toy.setting(), 20, lambda: float(next(ticks))) == 20.0


def test_dlion_sends_no_more_than_a_link_carries(toy) -> None:
    text = "dlion(links_mbit=(100.0, 100.0, 1.0, 100.0), send_ms=1.0)"
    driver = PeersRun(toy.task(text), Alone())
    sent = driver.how.train(driver.at, driver.mine[0], 0)
    assert sent[2].size_bytes <= 1.0 / 3 * 125 + 8
    assert sent[1].size_bytes > sent[2].size_bytes


def test_a_link_too_slow_for_one_message_is_named(toy) -> None:
    text = "dlion(links_mbit=(100.0, 100.0, 0.01, 100.0), send_ms=1.0)"
    with pytest.raises(LearnError, match="between clients 0 and 2 carries"):
        run(toy.task(text, 1))


def test_dlion_goes_to_the_best_clients_weights(toy) -> None:
    driver = peers(toy.task("dlion(merge_every=3, merge=1.0, links_mbit=(1.0, 1.0, 1.0, 1.0), "
                            "send_ms=1.0)"), 3)  # fmt: skip
    best = int(driver.mine[0].keeps["best"][0])
    for client in driver.mine.values():
        assert np.allclose(client.weights, driver.mine[best].weights, atol=1e-6)


LAYERS = (
    TensorSpan("a", 0, (6, 10)),
    TensorSpan("bias", 60, (6,)),
    TensorSpan("b", 66, (4, 5)),
)


@given(
    weights=st.integers(0, 99).map(lambda s: np.random.default_rng(s).normal(size=86)),
    sparsity=st.sampled_from((0.0, 0.3, 0.5, 0.8)),
    share=st.sampled_from((0.0, 0.1, 0.5, 1.0)),
)
@settings(max_examples=60, deadline=None)
def test_masks_keep_their_density(weights, sparsity: float, share: float) -> None:
    wanted = quotas(LAYERS, 86, sparsity)
    weights = weights.astype(np.float32)
    mask = largest_kept(weights, wanted)
    moved = readjusted(weights * mask, weights[::-1].copy(), mask, wanted, share)
    for quota in wanted:
        assert mask[quota.layer.place].sum() == quota.count == moved[quota.layer.place].sum()
    assert mask[60:66].all()
    assert moved[60:66].all()
    whole = sum(quota.count for quota in wanted)
    assert abs(whole - (1 - sparsity) * 80) <= 1


def test_what_has_gone_does_not_come_back_at_once() -> None:
    weights = np.arange(1, 87, dtype=np.float32)
    wanted = quotas(LAYERS, 86, 0.5)
    mask = largest_kept(weights, wanted)
    moved = readjusted(weights * mask, np.full(86, 1.0, np.float32), mask, wanted, 0.5)
    gone, came = mask & ~moved, moved & ~mask
    assert gone.sum() == came.sum() > 0
    assert np.abs(weights[gone]).max() < np.abs(weights[mask & moved][:40]).max()


def test_a_mask_that_empties_a_layer_is_refused() -> None:
    layers = (TensorSpan("wide", 0, (1000, 1000)), TensorSpan("narrow", 10**6, (2, 2)))
    with pytest.raises(LearnError, match="no weight of wide"):
        quotas(layers, 10**6 + 4, 1 - 1e-9)


def test_each_weight_is_averaged_over_the_clients_that_have_it(toy) -> None:
    how, at = FedDst(sparsity=0.5), toy.setting()
    server = how.open(at)
    size = at.learner.size
    masks = np.ones((2, size), np.bool_)
    masks[1, :6] = False
    inbox = {
        n: Message({"values": np.full(m.sum(), 1.0 + n, np.float32), "mask": np.packbits(m)})
        for n, m in enumerate(masks)
    }
    how.close(at, server, inbox, 1)  # a round without readjustment: nothing is cut
    assert np.allclose(server["weights"][:6], 1.0)
    assert np.allclose(server["weights"][6:], 1.5)


def test_feddst_sends_masked_weights_alone_and_a_mask_when_it_is_new(toy) -> None:
    text = "feddst(sparsity=0.5, every=2, until=1.0, moves=0.3)"
    found = run(toy.task(text, 4, clients=2))
    kept = 3 + 6  # biases, and half of 12 weights
    down = [[t.size_bytes for t in r.trips if t.source == -1] for r in found.rounds]
    up = [[t.size_bytes for t in r.trips if t.source >= 0] for r in found.rounds]
    assert down == [[4 * kept + 2] * 2, [4 * kept] * 2, [4 * kept] * 2, [4 * kept + 2] * 2]
    assert up == [[4 * kept] * 2, [4 * kept] * 2, [4 * kept + 2] * 2, [4 * kept] * 2]


def test_a_tuner_communicates_more_where_too_much_is_lost_and_less_where_not() -> None:
    tuner = Tuner(rungs=5, rung=2)
    tuner.climb(loss=0.3, cost=12.5, allowed=0.05)
    assert tuner.rung == 1
    tuner.climb(loss=0.01, cost=0.5, allowed=0.05)
    assert tuner.rung == 1  # the next rung cost more a moment ago
    for _ in range(4):
        tuner.climb(loss=0.01, cost=0.5, allowed=0.05)
    assert tuner.rung >= 2


def test_skewscout_sends_models_abroad_every_so_many_steps(toy) -> None:
    found = run(toy.task("skewscout(travel=20, first=3, samples=10)", 10))
    travelled = [r.number for r in found.rounds if any(t.after for t in r.trips)]
    assert travelled
    steps = [r.works[0].samples // 20 for r in found.rounds]
    assert sum(steps[: travelled[0] + 1]) >= 20


def test_messages_survive_their_way() -> None:
    sent = Message(
        {"a": np.arange(5, dtype=np.int32), "b": np.ones((2, 3), np.float32)}, {"loss": 0.1}
    )
    came = unpacked(packed(sent))
    assert np.array_equal(came.vectors["a"], sent.vectors["a"])
    assert came.vectors["b"].shape == (2, 3)
    assert came.numbers == sent.numbers
    with pytest.raises(LearnError, match="ends within"):
        unpacked(packed(sent)[:-3])


def test_a_model_of_one_block_cannot_grow_and_one_that_did_not_grow_whole_is_named(toy) -> None:
    with pytest.raises(LearnError, match="one block cannot grow"):
        run(toy.task("progfed", 3))
    at = replace(toy.setting(15), learner=_Blocks(toy.clouds(), toy.clouds()))
    assert algorithm("progfed(cycle=5)").notes(at) == ()
    (said,) = algorithm("progfed(cycle=8)").notes(at)
    assert "grew to 2 of its 3 blocks" in said


class _Blocks(Softmax):
    stages = 3


def test_scaffold_ends_well_at_a_rate_of_0(toy) -> None:
    found = run(toy.task("scaffold(last_lr=0.0)", 5))
    assert not found.broken


def test_settings_of_several_numbers_are_numbers() -> None:
    with pytest.raises(LearnError, match="speeds must be numbers"):
        algorithm("dlion(speeds=(1.0, 'a'))")
    with pytest.raises(LearnError, match="travel and samples are 1 or more"):
        algorithm("skewscout(samples=0)")


def test_progfed_needs_no_server_momentum() -> None:
    with pytest.raises(LearnError, match="begins anew"):
        ProgFed(server_momentum=0.5)


def _two_of_four():
    return Chances(per_round=2)


def test_models_of_unequal_shapes_have_no_mean() -> None:
    with pytest.raises(LearnError, match="unequal shapes"):
        mean([np.ones(3, np.float32), np.ones(4, np.float32)])


@given(seed=st.integers(0, 200), count=st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_values_and_places_travel_in_two_bytes_and_come_back(seed: int, count: int) -> None:
    drawn = np.random.default_rng(seed)
    places = np.sort(drawn.permutation(5000)[:count])
    some = rounded(Some.of(places, drawn.normal(size=count).astype(np.float32)))
    message = unpacked(packed(packed_tight(some)))
    again = unpacked_tight(message)
    assert np.array_equal(again.places, some.places)
    assert np.allclose(again.values, some.values, rtol=1e-6)
    assert message.size_bytes <= 2 * count + 5000 // 255 + 1 + 8


def test_what_rounding_leaves_is_at_most_half_a_level() -> None:
    values = np.array([1.0, -0.3, 0.001, 0.004], np.float32)
    found = rounded(Some.of(np.arange(4), values))
    assert found.places.tolist() == [0, 1, 3]
    assert np.abs(found.values - values[found.places]).max() <= 0.5 / 127


@pytest.mark.needs("torch")
def test_tight_dgc_learns_as_dgc_with_a_third_of_the_bytes(toy) -> None:
    plain, tight = (
        run(toy.task(f"dgc(lr=0.1, ratio=0.5, warmup=0{more})", 40))
        for more in ("", ", tight=True")
    )
    assert tight.accuracy > plain.accuracy - 0.03
    assert tight.sent_bytes < 0.5 * plain.sent_bytes


@pytest.mark.needs("torch")
def test_what_tight_dgc_does_not_send_waits(toy) -> None:
    """What was sent and what waits are together all gradients."""

    class Noting(Softmax):
        total = 0.0

        def gradient(self, weights, rows, stage=None):
            found = super().gradient(weights, rows, stage)
            self.total = self.total + found.values
            return found

    learner = Noting(toy.clouds(), toy.clouds())
    text = "dgc(ratio=0.3, warmup=0, momentum=0.0, tight=True, lr=0.05)"
    driver = peers(replace(toy.task(text, clients=1), learner=learner), 4)
    client = driver.mine[0]
    sent = (learner.start(1) - client.weights)[: learner.trained] / np.float32(0.05)
    assert np.abs(client.keeps["waiting"]).max() > 0
    assert np.allclose(sent + client.keeps["waiting"], learner.total, atol=1e-4)


@pytest.mark.needs("torch")
def test_a_block_that_is_added_costs_nothing_where_the_head_is_inherited(toy) -> None:
    from paceline.learn.torch_workers import network

    pictures = np.repeat(toy.clouds().inputs, 196, axis=1).reshape(-1, 1, 28, 28)
    samples = replace(toy.clouds(), inputs=np.ascontiguousarray(pictures))
    learner = network("growing", samples, samples)
    weights = learner.start(1)
    heads = {each.stage: each for each in learner.layers if each.head and len(each.shape) == 2}
    at = Setting(learner, (240,), 5, 1)
    for stage in (1, 2):  # of equal size; before, the first shrinks
        _inherit(at, weights, stage)
        assert np.array_equal(weights[heads[stage].place], weights[heads[stage + 1].place])
        rows = np.arange(240)
        assert learner.right(weights, rows, stage) == learner.right(weights, rows, stage + 1)
