"""Hardware search: templates, estimates, layer schedules against the paper's program, plans
against every split tried one by one."""

from dataclasses import replace
from itertools import pairwise, product
from math import ceil, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine import native
from paceline.imagine.decoder import (
    Content,
    DecoderJob,
    Operators,
    Product,
    Recipe,
    Sharding,
    decoder,
)
from paceline.imagine.transformer import Degrees
from paceline.place.hardware import (
    AREA_LIMIT_UM2,
    DESIGNS,
    AcceleratorFleet,
    DecoderModel,
    SearchSettings,
    Template,
    UniformModel,
    baselines,
    search,
    templates,
)
from paceline.place.hardware.bounds import least_seconds
from paceline.place.hardware.estimate import Operator, Unit, durations, flops
from paceline.place.hardware.models import BERT_LARGE, transformer_layer
from paceline.place.hardware.plan import (
    Layers,
    batch_seconds,
    best_plan,
    fixed_plan,
    layers_of,
    stage_of,
)
from paceline.place.hardware.schedule import (
    OperatorTask,
    Workload,
    greedy,
    list_schedule,
    lower_bound,
    optimal,
    window_bound,
)
from paceline.place.hardware.search import layer_times
from paceline.place.hardware.table import LayerTable
from paceline.place.hardware.template import CLOCK_HZ

needs_native = pytest.mark.skipif(native() is None, reason="the native core is not built")
TPU = DESIGNS["TPUv4-like"]
TINY = UniformModel("tiny", 3, 256, 4, 64, 1000)


def test_the_space_has_the_published_size_and_limits() -> None:
    made = list(templates())
    assert len(made) == pytest.approx(29_360, rel=0.01)
    assert max(t.area_um2 for t in made) == AREA_LIMIT_UM2 == pytest.approx(2.788e8, rel=0.01)
    assert min(t.area_um2 for t in made) == pytest.approx(3.36e6, rel=0.01)


def test_every_baseline_design_keeps_the_area_limit() -> None:
    assert all(t.area_um2 <= AREA_LIMIT_UM2 for t in DESIGNS.values())


def test_a_product_that_fills_the_array_takes_its_rows_in_cycles() -> None:
    op = Operator("mm", Unit.TENSOR, 4096, 128, 128)
    assert durations(op, Template(1, 1, 128, 128, 128)).one == 4096 + 128 + 128
    # eight cores would need 768 cycles; moving 2 x 1,064,960 bytes at 1.2 TB/s lasts 1,864
    assert durations(op, Template(8, 1, 128, 128, 128)).all == 1864


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 8),
    st.sampled_from([TPU, DESIGNS["GPU-like"], Template(4, 4, 64, 32, 2)]),
)  # fmt: skip
def test_no_product_beats_the_peak_or_gets_slower_with_all_cores(
    m: int, k: int, n: int, g: int, template: Template
) -> None:
    op = Operator("mm", Unit.TENSOR, m, k, n, g)
    lasts = durations(op, template)
    assert lasts.all <= lasts.one
    assert flops(op) / (lasts.all / CLOCK_HZ) <= template.peak_flops * (1 + 1e-9)


def test_a_backward_pass_has_twice_the_products() -> None:
    layer = transformer_layer(BERT_LARGE, 1, 1)
    forward, backward = (
        sum(flops(op) for op in ops if op.unit is Unit.TENSOR)
        for ops in (layer.forward, layer.backward)
    )
    assert backward == 2 * forward
    assert all(b < i for i, op in enumerate(layer.backward) for b in op.after)


def test_width_shares_out_products_and_parameters() -> None:
    one, four = (transformer_layer(BERT_LARGE, 1, width) for width in (1, 4))
    work = [sum(flops(op) for op in x.forward if op.unit is Unit.TENSOR) for x in (one, four)]
    assert work[0] == 4 * work[1]
    assert one.parameter_bytes == 4 * four.parameter_bytes


@st.composite
def workloads(draw: Any) -> Workload:
    tasks = []
    for i in range(draw(st.integers(1, 5))):
        one = draw(st.integers(2, 20))
        before = draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else set()
        unit = draw(st.sampled_from(list(Unit)))
        tasks.append(OperatorTask(unit, one, draw(st.integers(1, one)), tuple(sorted(before))))
    return Workload(tuple(tasks), {Unit.TENSOR: 2, Unit.VECTOR: draw(st.integers(1, 2))})


@settings(deadline=None, max_examples=15)
@given(workloads())
def test_schedules_equal_the_papers_integer_program(work: Workload) -> None:
    best = integer_program(work)
    assert optimal(work, effort=20.0) == best
    assert lower_bound(work) <= window_bound(work) <= best <= list_schedule(work) <= greedy(work)


def random_layers(seed: int, count: int, **changes: Any) -> Layers:
    rng = np.random.default_rng(seed)
    widths, size = 2, count * 2
    plain: dict[str, Any] = {
        "widths": np.array([1, 2], np.int32),
        "forward_s": rng.uniform(1, 5, size),
        "backward_s": rng.uniform(2, 9, size),
        "state_bytes": rng.uniform(1, 5, size),
        "parameter_bytes": rng.uniform(1, 5, size),
        "activation_bytes": rng.uniform(1, 5, size),
        "input_bytes": rng.uniform(0.1, 2, count),
        "bytes_per_s": 1.0,
        "memory_bytes": 14.0,
        "devices": 5,
        "micro_batches": 6,
        "recompute": seed % 2 == 0,
    }
    assert len(plain["forward_s"]) == widths * count
    return Layers(**(plain | changes))


def every_plan(layers: Layers) -> float:
    """Least batch time over all stage borders, widths and numbers of copies."""
    count, best = len(layers.input_bytes), inf
    for cuts in product((False, True), repeat=count - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), count]
        stages = len(bounds) - 1
        for chosen in product((0, 1), repeat=stages):
            made = [
                stage_of(layers, w, a, b, stages - i)
                for i, (w, (a, b)) in enumerate(zip(chosen, pairwise(bounds)))
            ]
            used = sum(int(layers.widths[w]) for w in chosen)
            kept = tuple(stage for stage in made if stage is not None)
            if len(kept) < stages:
                continue
            for copies in range(1, min(layers.devices // used, layers.micro_batches) + 1):
                best = min(best, batch_seconds(layers, chosen[0], kept, copies))
    return best


@needs_native
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([8.0, 14.0, 100.0]))
def test_the_planner_equals_every_split_tried(seed: int, count: int, memory: float) -> None:
    layers = random_layers(seed, count, memory_bytes=memory)
    assert best_plan(layers, 1).seconds == pytest.approx(every_plan(layers))


@needs_native
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([1, 2]))
def test_no_fixed_split_beats_the_planner(seed: int, stages: int, width: int) -> None:
    layers = random_layers(seed, 4)
    fixed = fixed_plan(layers, 1, stages, width)
    assert best_plan(layers, 1).seconds <= fixed.seconds * (1 + 1e-12)


@needs_native
def test_stages_cover_all_layers_and_keep_memory() -> None:
    layers = random_layers(2, 4, memory_bytes=14.0)
    plan = best_plan(layers, 1)
    assert [s.first for s in plan.stages] == [0, *(s.last for s in plan.stages[:-1])]
    assert plan.stages[-1].last == 4
    assert all(s.memory_bytes <= 14.0 for s in plan.stages)
    rounds = ceil(6 / plan.replicas) + len(plan.stages) - 1
    assert plan.seconds >= max(s.load_s for s in plan.stages) * rounds


@needs_native
def test_the_search_is_at_least_as_good_as_every_baseline() -> None:
    fleet = AcceleratorFleet(devices=16, global_batch=64, micro_batches=(2,), most_width=2)
    limits = SearchSettings(
        bucket_um2=AREA_LIMIT_UM2 / 5000,
        patience=3,
        seconds=2.0,
        finalists=1,
        effort=0.01,
    )
    found = search((TINY,), fleet, limits, DESIGNS.values())
    others = baselines(TINY, fleet, limits)
    assert others
    assert found.best.score(fleet) >= max(b.plan.samples_per_s(fleet) for b in others)
    assert found.best.template.area_um2 <= AREA_LIMIT_UM2
    assert found.considered >= found.planned


@needs_native
@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from((1, 2, 8, 64, 4096)), st.sampled_from((1, 4, 512)),
    st.sampled_from((2, 16, 128, 256)), st.sampled_from((2, 64, 256)), st.sampled_from((2, 128)),
)  # fmt: skip
def test_native_makespans_equal_their_definition(
    tensor: int, vector: int, width: int, depth: int, buffer: int
) -> None:
    template = Template(tensor, vector, width, depth, buffer)
    fleet = AcceleratorFleet(micro_batches=(1, 4), most_width=4)
    table = LayerTable((BERT_LARGE, TINY), fleet).times(template)
    for times, makespan in zip(table, (lower_bound, greedy)):
        defined = layer_times(template, makespan)
        for model, batch, width in product((BERT_LARGE, TINY), (1, 4), (1, 4)):
            for layer in dict.fromkeys(model.chain(batch, width)):
                assert times(layer) == defined(layer)


@needs_native
@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from((1, 8, 512)), st.sampled_from((1, 2, 512)), st.sampled_from((16, 128)),
    st.sampled_from((3, 16, 200)), st.sampled_from((7, 64)), st.sampled_from((1e6, 1e8, 4e9)),
)  # fmt: skip
def test_no_plan_beats_its_bound(
    tensor: int, vector: int, side: int, devices: int, samples: int, rate: float
) -> None:
    fleet = AcceleratorFleet(devices, rate, samples, micro_batches=(1, 4), most_width=4)
    times = LayerTable((TINY,), fleet).times(Template(tensor, vector, side, side, 8))[1]
    for batch in fleet.micro_batches:
        plan = best_plan(layers_of(TINY, batch, fleet, 1e9, times), batch)
        assert plan.seconds >= least_seconds(TINY, batch, fleet, times) * (1 - 1e-12)


@needs_native
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.5, 2.0))
def test_a_plan_to_beat_changes_nothing_but_what_is_slower(
    seed: int, count: int, share: float
) -> None:
    layers = random_layers(seed, count)
    best = best_plan(layers, 1)
    found = best_plan(replace(layers, beat_s=best.seconds * share), 1)
    assert found.seconds == (best.seconds if share > 1 else inf)


def test_a_chain_has_an_embedding_and_a_head() -> None:
    layers = TINY.chain(2, 2)
    assert len(layers) == TINY.layers + 2
    assert layers[1] is layers[2]


def integer_program(work: Workload) -> int:
    """The paper's formulation without time indices: order x[i, j], mode y[i], core z[i, c]."""
    import highspy

    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", 1e-9)
    tasks, count = work.tasks, len(work.tasks)
    scale = float(sum(t.one for t in tasks)) or 1.0
    start = [model.addVariable(lb=0.0, ub=1.0) for _ in tasks]
    makespan = model.addVariable(lb=0.0, ub=1.0, obj=1.0)
    whole = [model.addBinary() for _ in tasks]
    lasts = [
        whole[i] * (t.all / scale) + (1 - whole[i]) * (t.one / scale) for i, t in enumerate(tasks)
    ]
    for i in range(count):
        model.addConstr(start[i] + lasts[i] <= makespan)
        for before in tasks[i].after:
            model.addConstr(start[before] + lasts[before] <= start[i])
    core = {
        (i, c): model.addBinary() for i, t in enumerate(tasks) for c in range(work.cores[t.unit])
    }
    for i, t in enumerate(tasks):
        own = [core[i, c] for c in range(work.cores[t.unit])]
        model.addConstr(sum(own) + whole[i] == 1)
    for i in range(count):
        for j in range(i):
            if tasks[i].unit is not tasks[j].unit:
                continue
            first, second = model.addBinary(), model.addBinary()
            model.addConstr(first + second <= 1)
            model.addConstr(start[i] + lasts[i] - (1 - first) <= start[j])
            model.addConstr(start[j] + lasts[j] - (1 - second) <= start[i])
            model.addConstr(first + second >= whole[i])
            model.addConstr(first + second >= whole[j])
            for c in range(work.cores[tasks[i].unit]):
                model.addConstr(first + second >= core[i, c] + core[j, c] - 1)
    model.run()
    return round(float(model.getInfo().objective_function_value) * scale)


LLAMA = DecoderModel(decoder("llama3-8b"))


def test_a_described_decoder_asks_of_a_device_what_its_plan_is_priced_by() -> None:
    job = DecoderJob(LLAMA.decoder, Degrees(tensor=4), Recipe(2, 2, sharding=Sharding.NONE))
    _, layer, *_ = LLAMA.chain(2, 4)
    products = [one for one in Operators(job).forward(routed=False) if isinstance(one, Product)]
    ours = [op for op in layer.forward if op.unit is Unit.TENSOR]
    assert [(p.name, p.m, p.k, p.n) for p in products] == [
        (op.name, op.m, op.k, op.n) for op in ours if op.name not in ("scores", "context")
    ]
    assert layer.parameter_bytes == 2 * sum(
        share.params for share in job.shares(Content(1, 0, first=False, last=False))
    )
    assert len(LLAMA.chain(2, 4)) == LLAMA.decoder.layers + 2
    assert len({*LLAMA.chain(2, 4)}) == 3


def test_widths_of_a_decoder_divide_what_is_shared() -> None:
    assert LLAMA.widths() == (1, 2, 4, 8)


@needs_native
def test_a_design_is_found_for_a_described_decoder() -> None:
    fleet = AcceleratorFleet(devices=64, global_batch=64, micro_batches=(1,))
    settings = SearchSettings(seconds=1.0, finalists=1, winners=1, hbm_gib=96)
    found = search((LLAMA,), fleet, settings, DESIGNS.values())
    assert found.best.score(fleet) > 0
