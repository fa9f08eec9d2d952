"""A network that stands still: what it says of an image does not depend on the others."""

import pytest
import torch

from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.recovery.frozen_student import frozen_student
from dfml.rng import stream


@pytest.mark.parametrize("arch", ["conv4", "resnet10"])
def test_of_its_own_batch_it_says_what_the_batch_says_and_of_each_image_the_same(arch):
    net = Net(NetSpec(arch=arch, way=3, size=16, channels=3, width=4))
    params, images = net.init(stream(0)), torch.rand(12, 3, 16, 16, generator=stream(1))
    student = frozen_student(net, params, images)
    together = student(images)
    assert torch.allclose(together, net(params, images), atol=1e-4)
    assert torch.allclose(together, torch.cat([student(image[None]) for image in images]), atol=1e-4)
    assert not together.requires_grad
