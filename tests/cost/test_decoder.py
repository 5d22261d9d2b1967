"""What parts of a described decoder take on a site, where it can be worked out by hand."""

from dataclasses import replace

import pytest

from paceline.cluster.files import device
from paceline.cluster.machine import Machine
from paceline.cost.decoder import DecoderPrices, Ring, Site, exchange_ns
from paceline.cost.decoder.hosted import hosted_passes, hosted_update_ns
from paceline.cost.decoder.over_gloo import cores_ns
from paceline.cost.domain import Domain
from paceline.cost.forecast import sheet_of, shipped
from paceline.cost.passes import PassTimes
from paceline.graph.kinds import Collective
from paceline.imagine.decoder import MEGATRON, Decoder, DecoderJob, Recipe, decoder
from paceline.imagine.decoder import from_document as model_of
from paceline.imagine.transformer import Degrees

TINY = model_of({
    "layers": 2, "hidden": 64, "vocab": 256, "sequence": 64,
    "attention": {"kind": "grouped", "heads": 4}, "feed_forward": {"kind": "gated", "width": 256},
})  # fmt: skip
HOSTS = Site(device("h100"), ranks=16, per_host=8, fabric_bytes_per_s=100e9,
             nic_bytes_per_s=10e9, latency_ns=500)  # fmt: skip
SHARED = replace(HOSTS, ranks=4, machine=Machine(2.0, cpu_ns_per_byte=3.0))


@pytest.mark.parametrize(
    ("ranks", "stride", "inside"),
    [(8, 1, 8), (16, 1, 8), (4, 1, 4), (8, 2, 4), (4, 3, 2), (2, 8, 1), (2, 16, 1)],
)
def test_members_of_a_host_are_as_many_as_their_stride_leaves_room_for(
    ranks: int, stride: int, inside: int
) -> None:
    assert Ring(ranks, stride).inside(HOSTS) == inside


@pytest.mark.parametrize(
    ("stride", "fabric_bytes_per_s", "rate"), [(1, 100e9, 100e9), (1, 0, 12e9), (8, 100e9, 10e9)]
)
def test_a_message_goes_over_the_fabric_of_its_host_or_pcie_or_between_hosts(
    stride: int, fabric_bytes_per_s: float, rate: float
) -> None:
    """Of 85 MB, at 85 % of the link's rate, behind a launch of 12 us and the link's latency."""
    site = replace(HOSTS, fabric_bytes_per_s=fabric_bytes_per_s)
    domain = Domain(sheet_of(site.device), shipped())
    took = exchange_ns(site, domain, Collective.POINT_TO_POINT, 85e6, Ring(2, stride))
    assert took == pytest.approx(12_500 + 100e6 / rate * 1e9)


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (Collective.ALL_REDUCE, 1500),
        (Collective.REDUCE_SCATTER, 1500),
        (Collective.ALL_GATHER, 750),
    ],
)
def test_all_bytes_that_ranks_send_go_over_the_cores_that_they_share(
    call: Collective, sent: int
) -> None:
    """Of 1000 bytes on four ranks; gloo reduces and scatters by a whole all-reduce."""
    assert cores_ns(SHARED, call, 1000, Ring(4)) == 4 * sent * 3.0 / 2
    assert cores_ns(HOSTS, call, 1000, Ring(4)) == 0


def job(model: Decoder = TINY, tensor: int = 1, host_ns: float = 5_000.0) -> DecoderJob:
    recipe = Recipe(1, habits=replace(MEGATRON, host_ns=host_ns))
    return DecoderJob(model, Degrees(tensor=tensor), recipe)


def test_a_pass_of_kernels_that_are_shorter_than_their_launches_takes_as_long_as_those() -> None:
    """Half a millisecond for each is far more than any of them takes."""
    one, two = (
        DecoderPrices(replace(HOSTS, ranks=1)).chunk(job(host_ns=ns), 0)
        for ns in (500_000, 1_000_000)
    )
    assert two.forward_ns == pytest.approx(2 * one.forward_ns)
    assert two.backward_ns == pytest.approx(2 * one.backward_ns)


@pytest.mark.parametrize(("model", "products"), [(TINY, 4 + 3), (decoder("deepseek-v3"), 5 + 3)])
def test_each_linear_module_of_a_layer_costs_what_a_dtensor_does(
    model: object, products: int
) -> None:
    """Queries, keys, values and what follows attention, or latent attention's five; and three of
    a gated feed-forward."""
    dear = Machine(2.0, dtensor_forward_ns=10.0, dtensor_backward_ns=30.0)
    spent = hosted_passes(replace(HOSTS, machine=dear), job(model, tensor=2))
    assert spent == PassTimes(products * 10.0, products * 30.0)


def test_on_gpus_kernels_hide_what_dtensors_cost() -> None:
    sharded = job(tensor=2)
    assert hosted_passes(HOSTS, sharded) == PassTimes(0.0, 0.0)
    assert hosted_update_ns(HOSTS, sharded, sharded.contents[0]) == 0.0
