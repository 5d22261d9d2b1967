"""Hybrid plans: bounds hold, pruning loses nothing, memory decides, rows and reasons are there."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.cluster import ClusterError, from_document
from paceline.cost.decoder import DecoderPrices, Ring, Site, exchange_ns, site_of
from paceline.cost.domain import Domain
from paceline.cost.forecast import sheet_of, shipped
from paceline.errors import GraphError, PacelineError
from paceline.graph import check
from paceline.graph.kinds import Collective
from paceline.graph.schedules import Schedule
from paceline.imagine.decoder import (
    EARLY_MEGATRON,
    MEGATRON,
    DecoderJob,
    Recipe,
    Sharding,
    decoder,
    fullest,
)
from paceline.imagine.decoder import (
    from_document as model_of,
)
from paceline.imagine.transformer import Degrees, Recompute
from paceline.place.hybrid import (
    Allowed,
    PlanQuestion,
    candidates,
    own_plan,
    plan,
    price,
    rule_of_thumb,
    search,
    spelled,
)
from paceline.place.hybrid.skeleton import Data, Role, Shape, skeleton
from paceline.replay import replay

SMALL = model_of({
    "layers": 8, "hidden": 1024, "vocab": 8192, "sequence": 2048,
    "attention": {"kind": "grouped", "heads": 16, "kv_heads": 8},
    "feed_forward": {"kind": "gated", "width": 4096},
})  # fmt: skip
ROUTED = model_of({
    "layers": 4, "hidden": 1024, "vocab": 8192, "sequence": 2048,
    "attention": {"kind": "grouped", "heads": 16, "kv_heads": 8},
    "feed_forward": {"kind": "gated"}, "experts": {"count": 8, "top_k": 2, "ffn": 1024},
})  # fmt: skip


def site(system: str = "dgx-h100", ranks: int = 8) -> Site:
    return site_of(from_document({"hosts": {"system": system}}).with_workers(ranks))


def question(ranks: int = 8, **settings: object) -> PlanQuestion:
    given = {"model": SMALL, "site": site(ranks=ranks), "global_batch": 32, **settings}
    return PlanQuestion(**given)  # type: ignore[arg-type]


PRICES = {ranks: DecoderPrices(site(ranks=ranks)) for ranks in (1, 2, 4, 8, 16)}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(1, 1, 4), (2, 1, 2), (1, 2, 2), (2, 4, 1), (1, 8, 1), (1, 1, 8), (1, 4, 4)]),
    st.sampled_from([1, 2]),
    st.sampled_from([16, 32, 96]),
    st.sampled_from([Schedule.GPIPE, Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED,
                     Schedule.ZERO_BUBBLE]),
    st.sampled_from([Sharding.NONE, Sharding.OPTIMIZER, Sharding.FULL]),
    st.sampled_from([MEGATRON, EARLY_MEGATRON]),
    st.booleans(),
)  # fmt: skip
def test_no_step_is_faster_than_its_bound(
    degrees: tuple[int, int, int], micro_batch: int, batch: int, schedule: Schedule,
    sharding: Sharding, habits: object, routed: bool,
) -> None:  # fmt: skip
    tensor, pipeline, data = degrees
    chunks = 2 if schedule is Schedule.INTERLEAVED and pipeline in (2, 4) else 1
    schedule = (
        Schedule.ONE_F_ONE_B if chunks == 1 and schedule is Schedule.INTERLEAVED else schedule
    )
    model = ROUTED if routed else SMALL
    recipe = Recipe(batch * data, micro_batch, schedule=schedule, sharding=sharding, chunks=chunks,
                    habits=habits)  # type: ignore[arg-type]  # fmt: skip
    try:
        job = DecoderJob(model, Degrees(data, tensor, pipeline), recipe)
    except GraphError:
        return
    found = price(job, PRICES[tensor * pipeline * data])
    assert 0 < found.bound_ns <= found.step_ns


@pytest.mark.parametrize("model", [SMALL, ROUTED], ids=["dense", "experts"])
def test_bounds_leave_out_nothing_that_is_better(model: object) -> None:
    asked = question(model=model)
    quick, whole = search(asked), search(asked, prune=False)
    assert len(quick.priced) < len(whole.priced)
    assert [(p.step_ns, p.peak.total) for p in quick.front] == [
        (p.step_ns, p.peak.total) for p in whole.front
    ]


def test_each_plan_of_the_front_holds_less_than_the_faster_one() -> None:
    front = search(question()).front
    steps, held = [p.step_ns for p in front], [p.peak.total for p in front]
    assert steps == sorted(steps)
    assert held == sorted(held, reverse=True)


def test_every_plan_uses_all_devices_and_the_whole_batch() -> None:
    for job in candidates(question(ranks=16)):
        assert job.degrees.world == 16
        assert job.microbatches * job.recipe.micro_batch * job.degrees.data == 32


def test_the_rule_of_thumb_and_the_own_plan_are_rows_of_the_answer() -> None:
    found = plan(question(), own="tp=2,pp=2,mbs=2")
    rows = {row.name: row for row in found.rows}
    assert rows["own"].priced.job.degrees == Degrees(2, 2, 2)
    assert found.best.step_ns <= rows["rule of thumb"].priced.step_ns
    assert found.best.step_ns <= rows["own"].priced.step_ns
    assert {reason.axis for reason in found.reasons} >= {"tensor", "micro_batch", "sharding"}


def test_a_plan_is_read_as_it_is_written() -> None:
    asked = question(ranks=16)
    for job in list(candidates(asked))[::7]:
        assert own_plan(asked, spelled(job)) == job


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tp=3", "need 3 devices or a multiple"),
        ("tp=2,dp=8", "the cluster has 8"),
        ("colour=2", "no 'colour'"),
        ("tp=x", "give a whole number"),
        ("zero=7", "known: 0, 1, 2, 3"),
        ("tp=2,mbs=64", "global_batch=32 is not divisible"),
    ],
)
def test_an_own_plan_that_cannot_be_says_which_part(text: str, said: str) -> None:
    with pytest.raises(PacelineError, match=said):
        own_plan(question(), text)


def test_the_own_plan_may_be_too_large_and_says_so() -> None:
    asked = PlanQuestion(decoder("llama3-8b"), site(), 64)
    found = plan(asked, own="dp=8,zero=0,mbs=8")
    assert [row.fits for row in found.rows if row.name == "own"] == [False]


def test_a_model_that_fits_nowhere_says_what_is_too_much_and_what_would_do() -> None:
    with pytest.raises(
        PacelineError, match=r"GB more than there are; most of it optimizer"
    ) as refused:
        plan(PlanQuestion(decoder("llama3-70b"), site("dgx-a100"), 64))
    assert "smallest cluster of such hosts that would do: " in str(refused.value)
    enough = int(str(refused.value).rsplit("do: ", 1)[1].split()[0])
    larger = replace(site("dgx-a100"), ranks=enough)
    assert plan(PlanQuestion(decoder("llama3-70b"), larger, 64)).best.peak.total <= 80 * 2**30


def test_no_device_holds_more_than_the_reserve_leaves() -> None:
    asked = question(reserve=0.9)
    assert all(one.peak.total <= asked.memory_bytes for one in search(asked).priced)


def test_hosts_that_differ_are_refused() -> None:
    mixed = from_document(
        {"hosts": [{"system": "dgx-h100", "name": "a"}, {"system": "dgx-a100", "name": "b"}]}
    )
    with pytest.raises(ClusterError, match=r"b .* differs from a"):
        site_of(mixed)


def test_a_link_of_zero_is_refused() -> None:
    with pytest.raises(ClusterError, match="rate is 0"):
        from_document({"hosts": {"device": "h100"}, "link": {"rate": "0Gbps"}})


def test_an_unknown_system_names_the_known_ones() -> None:
    with pytest.raises(ClusterError, match="known: dgx-a100"):
        from_document({"hosts": {"system": "dgx-9000"}})


def test_domains_are_filled_evenly() -> None:
    cluster = from_document({"hosts": {"system": "dgx-gb200", "count": 4}})
    assert site_of(cluster, 256).per_host == 64
    assert site_of(cluster, 8).hosts == 1


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER,
                     Collective.ALL_TO_ALL, Collective.POINT_TO_POINT]),
    st.integers(22, 31),
    st.sampled_from([Ring(2), Ring(8), Ring(16), Ring(4, 8), Ring(64)]),
)  # fmt: skip
def test_more_bytes_never_take_less_and_faster_links_never_longer(
    call: Collective, power: int, ring: Ring
) -> None:
    here = site(ranks=64)
    domain = Domain(sheet_of(here.device), shipped())
    took = exchange_ns(here, domain, call, 2.0**power, ring)
    assert exchange_ns(here, domain, call, 2.0 ** (power + 1), ring) >= took
    quicker = replace(here, nic_bytes_per_s=2 * here.nic_bytes_per_s)
    assert exchange_ns(quicker, domain, call, 2.0**power, ring) <= took


def test_recomputation_costs_time_and_spares_memory() -> None:
    plain, again = (
        price(question().job(Degrees(8), recompute=how), PRICES[8])
        for how in (Recompute.NONE, Recompute.FULL)
    )
    assert again.step_ns > plain.step_ns
    assert again.peak.total < plain.peak.total


@pytest.mark.parametrize("data", [Data.ENDS, Data.EVERY])
@pytest.mark.parametrize("schedule", Schedule)
def test_a_stage_whose_exchanges_block_does_one_thing_at_a_time(
    schedule: Schedule, data: Data
) -> None:
    chunks = 2 if schedule is Schedule.INTERLEAVED else 1
    made = skeleton(Shape(schedule, 3, 6, chunks, data, 2, blocking=True))
    took = made.durations(np.ones((7, 3 * chunks)) * 10)
    timeline = replay(made.graph, prices=took)
    for stage in range(3):
        mine = (made.graph.ops.rank == stage) & (made.role != Role.SEND)
        order = np.argsort(timeline.start_ns[mine], kind="stable")
        begins, ends = timeline.start_ns[mine][order], timeline.end_ns[mine][order]
        assert (begins[1:] >= ends[:-1]).all()


@pytest.mark.parametrize("blocking", [False, True], ids=["beside", "blocking"])
@pytest.mark.parametrize("data", Data)
@pytest.mark.parametrize("schedule", Schedule)
def test_skeletons_are_lawful(schedule: Schedule, data: Data, blocking: bool) -> None:
    chunks = 2 if schedule is Schedule.INTERLEAVED else 1
    made = skeleton(Shape(schedule, 3, 6, chunks, data, 2, blocking=blocking))
    prices = np.ones((7, 3 * chunks)) * 10
    graph = replace(made.graph, ops=replace(made.graph.ops, dur_ns=made.durations(prices)))
    assert check(graph) is graph


def test_a_deeper_interleaving_fills_the_bubble() -> None:
    asked = question(ranks=4, global_batch=8)
    plain = price(asked.job(Degrees(1, 1, 4)), PRICES[4])
    turned = price(asked.job(Degrees(1, 1, 4), chunks=2, schedule=Schedule.INTERLEAVED), PRICES[4])
    assert turned.parts["idle"] < plain.parts["idle"]
    assert turned.peak.total > plain.peak.total


def test_the_rule_of_thumb_cuts_no_more_than_it_must() -> None:
    small = rule_of_thumb(question())
    assert small is not None
    assert small.degrees == Degrees(8)
    large = rule_of_thumb(PlanQuestion(decoder("llama3-70b"), site(ranks=64), 64))
    assert large is not None
    assert large.degrees.tensor > 1
    assert fullest(large).total <= 80 * 2**30


def test_what_may_be_chosen_can_be_narrowed() -> None:
    asked = question(allowed=Allowed(micro_batches=(2,), recomputes=(Recompute.FULL,)))
    assert {(j.recipe.micro_batch, j.recipe.recompute) for j in candidates(asked)} == {
        (2, Recompute.FULL)
    }


def tight(layers: int = 8) -> PlanQuestion:
    """On one device, with half of the memory that full recomputation would spare."""
    allowed = Allowed(micro_batches=(8,), recomputes=(Recompute.NONE, Recompute.FULL))
    asked = question(ranks=1, global_batch=8, model=replace(SMALL, layers=layers), allowed=allowed)
    held = [
        fullest(asked.job(Degrees(), micro_batch=8, sharding=Sharding.NONE, recompute=how)).total
        for how in allowed.recomputes
    ]
    return replace(asked, reserve=1 - sum(held) / 2 / asked.memory_bytes)


def test_no_more_layers_recompute_than_memory_asks_for() -> None:
    asked = tight()
    best = search(asked).best.job
    assert 0 < best.recipe.recomputed < 8
    assert fullest(best).total <= asked.memory_bytes
    fewer = replace(best, recipe=replace(best.recipe, recomputed=best.recipe.recomputed - 1))
    assert fullest(fewer).total > asked.memory_bytes
    assert own_plan(asked, spelled(best)) == best


def test_each_layer_more_that_recomputes_costs_time_and_spares_memory() -> None:
    asked = tight()
    found = [
        price(
            asked.job(Degrees(), micro_batch=8, sharding=Sharding.NONE, recompute=Recompute.FULL,
                      recomputed=count),
            PRICES[1],
        )
        for count in range(1, 9)
    ]  # fmt: skip
    steps, held = [one.step_ns for one in found], [one.peak.total for one in found]
    assert steps == sorted(steps)
    assert held == sorted(held, reverse=True)
    assert len({*steps}) == 8


def test_bounds_hold_where_some_layers_recompute() -> None:
    quick, whole = search(tight()), search(tight(), prune=False)
    assert [p.step_ns for p in quick.front] == [p.step_ns for p in whole.front]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recompute=selective:2", "only full recomputation"),
        ("recompute=full:9", "a chunk has 8"),
        ("recompute=full:none", "give a whole number"),
    ],
)
def test_recomputation_that_cannot_be_says_why(text: str, said: str) -> None:
    with pytest.raises(PacelineError, match=said):
        own_plan(question(), text)
