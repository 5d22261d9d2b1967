"""What PyTorch's host spends on weights that are DTensors, where ranks compute on processors.

One worker's recording does not show it, for on one rank weights are plain. On a GPU kernels hide
it. Tensor parallelism makes DTensors of a block's products, FSDP2 of all weights.
"""

from paceline.cost.decoder.site import Site
from paceline.cost.passes import PassTimes
from paceline.imagine.decoder import Content, DecoderJob, GroupedQuery, Sharding

_NORMS = 2  # of a layer


def hosted_passes(site: Site, job: DecoderJob) -> PassTimes:
    """Of a dense layer and a micro-batch."""
    if site.machine is None or job.degrees.tensor == 1:
        return PassTimes(0.0, 0.0)
    count, machine = _products(job), site.machine
    return PassTimes(count * machine.dtensor_forward_ns, count * machine.dtensor_backward_ns)


def hosted_update_ns(site: Site, job: DecoderJob, content: Content) -> float:
    """Of a chunk's weights, once a step."""
    if site.machine is None:
        return 0.0
    layers, products = content.dense + content.routed, _products(job)
    if job.recipe.sharding is not Sharding.NONE:
        weights = layers * (products + _NORMS) + content.first + 2 * content.last
    else:
        weights = layers * products if job.degrees.tensor > 1 else 0
    return weights * site.machine.dtensor_update_ns


def _products(job: DecoderJob) -> int:
    """A layer's linear modules, as PyTorch has them: queries, keys, values and the gate apart."""
    model = job.model
    attention = 4 if isinstance(model.attention, GroupedQuery) else len(model.linears)
    return attention + (3 if model.gated else 2)
