"""The pure networks against the modules they stand for: values, first and second derivatives."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from dfml.nets import NetSpec
from dfml.nets.functional import Net
from dfml.nets.primitives import conv2d, norm_pool_relu
from dfml.rng import stream

SPECS = [
    NetSpec(width=4, size=16),
    NetSpec(width=5, size=19, channels=1, way=3),  # odd sides: pooling drops a row that still counts for BatchNorm
    NetSpec(arch="conv4-growing", width=3, size=20),
    NetSpec(arch="resnet10", width=3, size=16),
    NetSpec(arch="resnet18", width=2, size=18, channels=1),
]


def rough_module(spec: NetSpec) -> Any:
    """A module in float64 away from its initial symmetry: also negative gains, biases everywhere."""
    module = spec.build(rng=stream(0, "module"), batch_norm="batch").double()
    for name, p in module.named_parameters():
        if p.dim() == 1:
            p.data += torch.randn(p.shape, generator=stream(1, name), dtype=p.dtype)
    return module


def images(spec: NetSpec, n: int = 6) -> torch.Tensor:
    return torch.rand(n, spec.channels, spec.size, spec.size, generator=stream(2), dtype=torch.float64)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.arch}-{s.size}")
def test_values_and_two_derivatives_are_those_of_the_module(spec):
    module, net, x = rough_module(spec), Net(spec), images(spec)
    params = dict(module.named_parameters())
    labels = torch.arange(6) % spec.way
    normalised = (x - 0.5) / 0.25

    def derivatives(logits):
        wanted = list(params.values())
        first = torch.autograd.grad(F.cross_entropy(logits, labels), wanted, create_graph=True, materialize_grads=True)
        weights = [torch.randn(p.shape, generator=stream(3, name), dtype=p.dtype) for name, p in params.items()]
        slope = torch.stack([(g * w).sum() for g, w in zip(first, weights, strict=True)]).sum()
        return first, torch.autograd.grad(slope, wanted, materialize_grads=True)

    torch.testing.assert_close(net.features(params, x), module.features(normalised), rtol=1e-10, atol=1e-10)
    ours, theirs = net(params, x), module(normalised)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for a, b in zip(derivatives(ours), derivatives(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)
    assert ours.shape == (6, spec.way)


def test_a_bias_before_batch_norm_has_exactly_no_gradient():
    spec = SPECS[0]
    net, params = Net(spec), dict(rough_module(spec).named_parameters())
    loss = net(params, images(spec)).square().sum()
    names = [name for name in params if name.endswith("conv.bias")]
    grads = torch.autograd.grad(loss, [params[n] for n in names], materialize_grads=True)
    assert len(names) == 4
    assert not any(g.any() for g in grads)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.arch}-{s.size}")
def test_init_draws_the_same_weights_as_the_module(spec):
    built = dict(spec.build(rng=stream(7)).named_parameters())
    drawn = Net(spec).init(stream(7))
    assert list(drawn) == list(built)
    assert all(torch.equal(drawn[name], built[name]) for name in built)
    assert not any(p.requires_grad for p in drawn.values())
    assert Net(spec).shapes == {name: p.shape for name, p in built.items()}


def test_a_call_changes_neither_parameters_nor_images():
    spec = NetSpec(width=4, size=16)
    net, x = Net(spec), images(spec).float()
    params = net.init(stream(0))
    before = {name: p.clone() for name, p in params.items()}
    first = net(params, x)
    assert torch.equal(first, net(params, x))
    assert all(torch.equal(params[name], before[name]) for name in params)


@pytest.mark.parametrize(("stride", "padding", "kernel"), [(1, 1, 3), (2, 1, 3), (2, 0, 1)])
def test_convolution_passes_numerical_checks_of_both_derivatives(stride, padding, kernel):
    rng = stream(4)
    x = torch.randn(2, 2, 5, 5, generator=rng, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 2, kernel, kernel, generator=rng, dtype=torch.float64, requires_grad=True)

    def conv(x, w):
        return conv2d(x, w, stride=stride, padding=padding)

    torch.testing.assert_close(conv(x, w), F.conv2d(x, w, stride=stride, padding=padding))
    assert torch.autograd.gradcheck(conv, (x, w))
    assert torch.autograd.gradgradcheck(conv, (x, w))


def test_norm_pool_relu_passes_numerical_checks_of_both_derivatives():
    rng = stream(5)
    y = torch.randn(3, 2, 5, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    gain = torch.tensor([0.7, 1.4], dtype=torch.float64, requires_grad=True)
    bias = torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)
    plain = F.max_pool2d(F.batch_norm(y, None, None, gain, bias, training=True).relu(), 2)
    torch.testing.assert_close(norm_pool_relu(y, gain, bias), plain)
    assert torch.autograd.gradcheck(norm_pool_relu, (y, gain, bias))
    assert torch.autograd.gradgradcheck(norm_pool_relu, (y, gain, bias))
