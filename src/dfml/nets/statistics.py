"""BatchNorm statistics as data: taken from a batch, blended, put into a network that then stands still."""

import torch
from torch import Tensor, nn

from dfml.hardware import device_of
from dfml.nets import Classifier, NetSpec

Statistics = dict[str, Tensor]
"""`<layer>.running_mean` and `<layer>.running_var` of every BatchNorm layer"""


@torch.no_grad()
def batch_statistics(spec: NetSpec, params: dict[str, Tensor], inputs: Tensor) -> Statistics:
    """What every BatchNorm layer sees of normalised `inputs` (n, c, h, w), each fed by layers that use the same batch.

    The variance is the biased one: a network frozen with these statistics gives, for exactly this batch, what it gave
    with batch statistics.
    """
    net = spec.outline(batch_norm="batch").to(inputs.device)
    net.load_state_dict(params)
    statistics: Statistics = {}

    def watch(name: str) -> "torch.utils.hooks.RemovableHandle":
        def look(layer: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            mean, variance = torch.ops.aten.batch_norm_update_stats(arguments[0], None, None, 0.0)  # in one pass
            statistics[f"{name}.running_mean"], statistics[f"{name}.running_var"] = mean, variance

        return net.get_submodule(name).register_forward_pre_hook(look)

    hooks = [watch(name) for name, layer in net.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    net(inputs.contiguous(memory_format=spec.memory_format))
    for hook in hooks:
        hook.remove()
    return statistics


def blend(ours: Statistics, theirs: Statistics, weight: float) -> Statistics:
    """The statistics of a mixture that draws from `ours` with probability `weight`, else from `theirs`."""
    mixed: Statistics = {}
    for name in ours:
        if name.endswith("running_mean"):
            layer = name.removesuffix("running_mean")
            mean = weight * ours[name] + (1 - weight) * theirs[name]
            variance = weight * (ours[f"{layer}running_var"] + (ours[name] - mean) ** 2)
            variance += (1 - weight) * (theirs[f"{layer}running_var"] + (theirs[name] - mean) ** 2)
            mixed[name], mixed[f"{layer}running_var"] = mean, variance
    return mixed


def frozen(spec: NetSpec, params: dict[str, Tensor], statistics: Statistics) -> Classifier:
    """A network that treats every image alike, whatever else is in the batch."""
    net = spec.outline(batch_norm="running").to(device_of(params))
    counters = {name: t for name, t in net.state_dict().items() if name.endswith("num_batches_tracked")}
    net.load_state_dict({**params, **statistics, **counters})
    return net.eval().requires_grad_(False)
