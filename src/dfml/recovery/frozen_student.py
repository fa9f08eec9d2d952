"""A network that stands still while images are recovered against it."""

from torch import Tensor

from dfml.nets.functional import Net, Params, normalise
from dfml.nets.statistics import batch_statistics, frozen
from dfml.recovery.objectives import StudentLogits


def frozen_student(net: Net, params: Params, images: Tensor) -> StudentLogits:
    """`params` as a function of one image, with the BatchNorm statistics of `images` (n, c, h, w) for ever."""
    module = frozen(net.spec, params, batch_statistics(net.spec, params, normalise(images)))

    def logits(x: Tensor) -> Tensor:
        answer: Tensor = module(normalise(x).contiguous(memory_format=net.spec.memory_format))  # thrice as fast
        return answer

    return logits
