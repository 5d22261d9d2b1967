"""Recorded and imagined jobs as models: blocks, dimensions, times that are kept, refusals."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.cli import main
from paceline.cluster import from_document
from paceline.cluster.machine import Machine
from paceline.cost.decoder import Site, site_of
from paceline.errors import PacelineError
from paceline.graph import Axis, DType, Graph, GraphBuilder, Phase
from paceline.graph.facts import LayerMemory, RankMemory
from paceline.graph.work import Attention, Matrix, Recorded, attention, matrix
from paceline.imagine.decoder import Precision, Sharding, kept_bytes
from paceline.imagine.transformer import Degrees
from paceline.place.hybrid import plan, price
from paceline.place.hybrid.recorded import RecordedAs, blocks_of, recorded_model
from paceline.place.hybrid.step import chunks_of

SEQUENCES, LENGTH, HIDDEN, HEADS, FFN, WORDS = 4, 32, 64, 4, 96, 128
ROWS = SEQUENCES * LENGTH
EXAMPLES = Path(__file__).parents[3] / "examples"
MS = 1_000_000


class Drawing:
    """A step of one rank, drawn call by call."""

    def __init__(self) -> None:
        self.b = GraphBuilder()
        self.lane = self.b.lane(name="thread")

    def product(self, layer: str, n: int, k: int, ms: int = 1, pieces: int = 1) -> None:
        work = matrix(Matrix(1, ROWS, n, k), DType.FLOAT32)
        for _ in range(pieces):
            self._op(Recorded("aten::mm", work), layer, ms, pieces)

    def attention(self, layer: str, ms: int = 1) -> None:
        size = HIDDEN // HEADS
        dims = Attention(SEQUENCES, HEADS, HEADS, LENGTH, LENGTH, size, size, causal=True)
        self._op(Recorded("aten::attention", attention(dims, DType.FLOAT32)), layer, ms)

    def backward(self, layer: str, ms: int) -> None:
        self.b.op("back", self.lane, ms * MS, phase=Phase.BACKWARD, layer=layer)

    def _op(self, work: Recorded, layer: str, ms: int, pieces: int = 1) -> None:
        self.b.op(work.operator, self.lane, ms * MS, phase=Phase.FORWARD, layer=layer, work=work,
                  flops=work.work.flops // pieces)  # fmt: skip


def decoder_step(blocks: int = 3, ffn: int = 2 * FFN, times: int = 1) -> Drawing:
    """Blocks of 6 ms there and 12 ms back between ends of 1 ms each, and an update of 5 ms."""
    made = Drawing()
    for _ in range(times):
        made.b.op("embedding", made.lane, MS, phase=Phase.FORWARD, layer="words")
        for at in range(blocks):
            made.product(f"layers.{at}.attention.qkv", 3 * HIDDEN, HIDDEN, pieces=2)
            made.attention(f"layers.{at}.attention")
            made.product(f"layers.{at}.attention.out", HIDDEN, HIDDEN)
            made.product(f"layers.{at}.ffn.0", ffn, HIDDEN)
            made.product(f"layers.{at}.ffn.2", HIDDEN, FFN)
        made.product("head", WORDS, HIDDEN)
        made.backward("head", 2)
        for at in reversed(range(blocks)):
            made.backward(f"layers.{at}.ffn.2", 12)
        made.backward("words", 1)
    made.b.op("update", made.lane, 5 * MS, phase=Phase.UPDATE)
    return made


def drawn(**settings: int) -> Graph:
    return decoder_step(**settings).b.build()


def site(workers: int = 1) -> Site:
    hosts = {"count": workers, "device": "epyc-2c"}
    return site_of(from_document({"hosts": hosts, "link": {"rate": "1Gbps"}}))


def test_blocks_are_told_by_names_and_by_what_they_do() -> None:
    found = blocks_of(drawn(blocks=3))
    assert (found.prefix, found.numbers) == ("layers.", ("0", "1", "2"))
    assert found.holds("layers.1.ffn.0")
    assert not found.holds("layers.12")


def test_a_recorded_decoder_has_the_dimensions_of_its_products() -> None:
    job = recorded_model(drawn(), RecordedAs("mine"))
    model = job.model
    assert (model.layers, model.hidden, model.ffn, model.gated) == (3, HIDDEN, FFN, True)
    assert (model.attention.heads, model.attention.head_dim, model.vocab) == (HEADS, 16, WORDS)
    assert (job.found.micro_batch, model.sequence) == (SEQUENCES, LENGTH)
    assert job.found.precision is Precision.FP32


def test_several_passes_a_step_are_micro_batches() -> None:
    job = recorded_model(drawn(times=2), RecordedAs("mine"))
    assert (job.found.passes, job.found.micro_batch) == (2, SEQUENCES)
    assert job.worker_batch == 2 * SEQUENCES
    assert job.model.layers == 3


def test_what_was_recorded_is_kept_to_the_nanosecond() -> None:
    asked = recorded_model(drawn(), RecordedAs("mine")).question(site())
    job = asked.job(Degrees(), micro_batch=SEQUENCES, sharding=Sharding.NONE)
    recorded_ms = 1 + 3 * (6 + 12) + 1 + 2 + 1 + 5
    assert price(job, asked.prices()).step_ns == pytest.approx(recorded_ms * MS, abs=10)


def test_what_a_layer_keeps_is_as_recorded() -> None:
    layers = tuple(LayerMemory(f"layers.{at}", "Block", kept_bytes=123_456) for at in range(3))
    graph = drawn()
    told = replace(graph, facts=replace(graph.facts, memory=(RankMemory(0, layers=layers),)))
    asked = recorded_model(told, RecordedAs("mine")).question(site())
    job = asked.job(Degrees(), micro_batch=SEQUENCES, sharding=Sharding.NONE)
    assert kept_bytes(job, routed=False) == pytest.approx(123_456)


def test_other_shapes_are_carried_from_the_recording() -> None:
    asked = recorded_model(drawn(), RecordedAs("mine")).question(site())
    half = replace(asked, global_batch=SEQUENCES // 2)
    whole_ns, half_ns = (
        price(one.job(Degrees(), micro_batch=size, sharding=Sharding.NONE), one.prices()).step_ns
        for one, size in ((asked, SEQUENCES), (half, SEQUENCES // 2))
    )
    assert whole_ns / 2 < half_ns < whole_ns


def test_a_recording_is_planned_for_processors_over_gloo() -> None:
    asked = recorded_model(drawn(), RecordedAs("mine")).question(site(4))
    assert asked.global_batch == 4 * SEQUENCES
    found = plan(asked, own="tp=2,pp=2,zero=0")
    own = found.rows[-1].priced
    assert own.job.degrees == Degrees(1, 2, 2)
    assert any(job.recipe.sharding is Sharding.NONE for job in found.search.jobs.values())


def shared(**told: float) -> Site:
    """Four workers on two cores that they share."""
    return replace(site(4), machine=Machine(2.0, cpu_ns_per_byte=0.0, turn_ns=0.0, **told))


def step_ms(on: Site, degrees: Degrees, sharding: Sharding = Sharding.NONE) -> float:
    asked = recorded_model(drawn(blocks=4), RecordedAs("mine")).question(on)
    job = asked.job(degrees, micro_batch=SEQUENCES, sharding=sharding)
    return price(job, asked.prices()).step_ns / MS


def test_tensor_ranks_spend_what_dtensors_cost_on_each_product() -> None:
    """Four micro-batches of four blocks with seven products each; two ranks to a core."""
    plain = step_ms(shared(), Degrees(tensor=4))
    dear = step_ms(shared(dtensor_forward_ns=0.1 * MS, dtensor_backward_ns=0.2 * MS),
                   Degrees(tensor=4))  # fmt: skip
    assert dear - plain == pytest.approx(2 * 4 * 4 * 7 * 0.3, rel=1e-3)


def test_sharded_weights_are_updated_as_dtensors_and_plain_replicas_are_not() -> None:
    dear = shared(dtensor_update_ns=0.5 * MS)
    for sharding, weights in ((Sharding.NONE, 0), (Sharding.OPTIMIZER, 4 * 9 + 3)):
        more = step_ms(dear, Degrees(4), sharding) - step_ms(shared(), Degrees(4), sharding)
        assert more == pytest.approx(2 * weights * 0.5, rel=1e-3)


def test_gloo_takes_the_times_that_were_measured_where_cores_are_shared() -> None:
    """A layer's four all-reduces, of which each is a call with twelve messages in turn."""
    quick = step_ms(shared(call_ns=0.0, message_ns=0.0), Degrees(tensor=4))
    slow = step_ms(shared(call_ns=0.4 * MS, message_ns=0.1 * MS), Degrees(tensor=4))
    assert slow - quick == pytest.approx(4 * 4 * 4 * (0.4 + 12 * 0.1), rel=1e-3)


def test_bytes_that_the_cores_cannot_carry_as_fast_as_the_links_set_the_pace() -> None:
    assert step_ms(replace(shared(), machine=Machine(2.0, cpu_ns_per_byte=50.0, turn_ns=0.0)),
                   Degrees(tensor=4)) > 1.2 * step_ms(shared(), Degrees(tensor=4))  # fmt: skip


def test_work_behind_a_wait_takes_longer_where_rests_cost_something() -> None:
    cold = shared(call_ns=3.0 * MS, rested=1.5)
    warm = shared(call_ns=3.0 * MS)
    assert step_ms(cold, Degrees(tensor=4)) > 1.1 * step_ms(warm, Degrees(tensor=4))
    assert step_ms(cold, Degrees()) == pytest.approx(step_ms(warm, Degrees()))


def test_work_takes_longer_beside_that_of_more_ranks_than_cores() -> None:
    crowd = shared(crowded_product=1.5, crowded_pass=1.5)
    assert step_ms(crowd, Degrees(pipeline=4)) > 1.3 * step_ms(shared(), Degrees(pipeline=4))
    two, plain = (replace(site(2), machine=one.machine) for one in (crowd, shared()))
    assert step_ms(two, Degrees(2)) == step_ms(plain, Degrees(2))


def test_every_exchange_that_all_wait_for_ends_later_where_threads_are_laid_unevenly() -> None:
    """Four micro-batches of four blocks with four all-reduces; or a step's gathers and reductions
    of four layers and the ends."""
    late = shared(together_ns=1.0 * MS)
    more = step_ms(late, Degrees(tensor=4)) - step_ms(shared(), Degrees(tensor=4))
    assert more == pytest.approx(4 * 4 * 4, rel=1e-3)
    sharded = (Degrees(4), Sharding.OPTIMIZER)
    assert step_ms(late, *sharded) - step_ms(shared(), *sharded) == pytest.approx(2 * 5, rel=1e-3)


def test_messages_of_tensor_ranks_wait_for_their_turn_while_other_groups_work() -> None:
    """An all-reduce of two has four messages in turn; four ranks in one group all wait for them."""

    def slower_ms(degrees: Degrees, ranks: int = 4) -> float:
        on = replace(shared(), ranks=ranks)
        busy = replace(on, machine=Machine(2.0, cpu_ns_per_byte=0.0, turn_ns=2.0 * MS))
        return step_ms(busy, degrees) - step_ms(on, degrees)

    assert slower_ms(Degrees(tensor=4)) == 0
    assert slower_ms(Degrees(tensor=2), ranks=2) == 0
    exchanges, most = 4 * 4 * 2, 4 * 2.0  # four a layer, four layers, two micro-batches
    assert 0.2 * most * exchanges < slower_ms(Degrees(data=2, tensor=2)) < most * exchanges
    assert slower_ms(Degrees(tensor=2, pipeline=2)) > 0


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (drawn(blocks=1), "no repeated blocks"),
        (drawn(ffn=FFN + 1), r"layers.0 to layers.2 are no decoder's.*over 97 and 96"),
    ],
    ids=["one block", "another feed-forward"],
)
def test_what_is_no_repeated_decoder_is_refused_with_the_reason(graph: Graph, said: str) -> None:
    with pytest.raises(PacelineError, match=said):
        recorded_model(graph, RecordedAs("mine"))


def test_blocks_without_attention_are_refused_and_another_command_named() -> None:
    made = Drawing()
    for at in range(2):
        made.product(f"{at}", HIDDEN, HIDDEN)
    with pytest.raises(PacelineError, match=r"no attention between.*paceline pipeline RUN"):
        recorded_model(made.b.build(), RecordedAs("mine"))


def test_a_job_that_is_cut_already_is_refused() -> None:
    made = decoder_step()
    made.b.group("halves", (0, 1), Axis.TENSOR)
    with pytest.raises(PacelineError, match="cut along tensor already"):
        recorded_model(made.b.build(), RecordedAs("mine"))


@pytest.mark.live
@pytest.mark.needs("torch")
def test_a_script_that_was_imagined_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = [str(EXAMPLES / "train.py"), *"--model transformer --batch 8 --steps 4".split()]
    imagined = ["imagine", "-o", str(tmp_path), "--world-size", "2", "--", sys.executable]
    assert main([*imagined, *script]) == 0
    capsys.readouterr()
    assert main(["plan", str(tmp_path), "--cluster", "dgx-h100:8", "--json", "--own", "tp=4"]) == 0
    rows = json.loads(capsys.readouterr().out)["plans"]
    assert rows[-1]["plan"] == "dp=2,tp=4"


def test_exchanges_of_sharded_weights_stand_between_passes_where_gloo_blocks() -> None:
    """Four gathers, and four reductions of twice their bytes, in a row with all passes."""
    asked = recorded_model(drawn(blocks=4), RecordedAs("mine")).question(site(4))
    job = asked.job(Degrees(4), micro_batch=SEQUENCES, sharding=Sharding.OPTIMIZER)
    prices = asked.prices()
    (chunk,) = chunks_of(job, prices)
    passes = chunk.forward_ns + chunk.backward_ns
    exchanged = chunk.gather_ns + chunk.reduce_ns
    assert chunk.reduce_ns > 1.5 * chunk.gather_ns > 0
    told = price(job, prices).step_ns
    assert told == pytest.approx(passes + exchanged + chunk.update_ns, rel=1e-4)
