"""Small APIs that show their weights; not a test itself."""

import torch
import torch.nn.functional as F

from dfml.apis.blackbox import ApiSpec
from dfml.apis.local.module import ModuleApi
from dfml.images.prior import prior
from dfml.nets import NetSpec
from dfml.rng import stream

SPEC = NetSpec(way=3, size=16, width=4)


def open_api(name, spec=SPEC, seed=0, std=None, steps=0):
    """A network with weights of its own, and with `steps` taught to tell red from green from blue pictures."""
    classes = tuple(f"class {k}" for k in range(spec.way))
    shape = ApiSpec(name=name, classes=classes, image=(spec.channels, spec.size, spec.size))
    net = spec.build(rng=stream(seed))
    images = prior(150, seed=seed, size=spec.size).float() / 255
    labels = images.mean((2, 3)).argmax(1)
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        adam.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        adam.step()
    return ModuleApi(net.eval(), shape, std=std)
