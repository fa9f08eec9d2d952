"""The meta-gradient of replay against other people's MAML, and its independence of workers."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from dfml.episode import Episode
from dfml.errors import ConfigError
from dfml.meta.replay import meta_gradient
from dfml.meta.tasks import mean_gradient
from dfml.nets import NetSpec
from dfml.nets.functional import Net, Params
from dfml.rng import stream

SPEC = NetSpec(width=4, size=16, way=3)
LR, STEPS = 0.1, 3


def episodes(count: int, dtype: torch.dtype = torch.float64) -> list[Episode]:
    def images(n: int, *name: str | int) -> torch.Tensor:
        return torch.rand(n, 3, 16, 16, generator=stream(0, *name), dtype=dtype)

    few, many = torch.arange(3).repeat_interleave(2), torch.arange(3).repeat_interleave(4)
    return [Episode(images(6, "s", i), few, images(12, "q", i), many, tuple("abc")) for i in range(count)]


def module() -> torch.nn.Module:
    return SPEC.build(rng=stream(1), batch_norm="batch").double()


def assert_same_gradient(theirs: torch.nn.Module, ours: dict[str, torch.Tensor]) -> None:
    for name, p in theirs.named_parameters():
        assert p.grad is not None
        torch.testing.assert_close(ours[name], p.grad, rtol=1e-7, atol=1e-12, msg=partial("{}: {}".format, name))


def normalised(images: torch.Tensor) -> torch.Tensor:
    return (images - 0.5) / 0.25


@pytest.mark.parametrize("count", [1, 3])
def test_meta_gradient_is_that_of_torchopt(count):
    torchopt = pytest.importorskip("torchopt")
    net, batch = module(), episodes(count)
    inner = torchopt.MetaSGD(net, lr=LR)
    start = torchopt.extract_state_dict(net, by="reference", detach_buffers=True)
    inner_start = torchopt.extract_state_dict(inner, by="reference")
    leaves: Params = dict(net.named_parameters())
    losses = []
    for task in batch:
        for _ in range(STEPS):
            inner.step(F.cross_entropy(net(normalised(task.support)), task.support_labels))
        losses.append(F.cross_entropy(net(normalised(task.query)), task.query_labels))
        torchopt.recover_state_dict(net, start)
        torchopt.recover_state_dict(inner, inner_start)
    grads = torch.autograd.grad(torch.stack(losses).mean(), list(leaves.values()))
    ours = meta_gradient(Net(SPEC), leaves, batch, inner_lr=LR, inner_steps=STEPS)
    assert ours.loss == pytest.approx(torch.stack(losses).mean().item())
    for (name, mine), theirs in zip(ours.grads.items(), grads, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-12, msg=partial("{}: {}".format, name))


def test_meta_gradient_is_that_of_higher():
    higher = pytest.importorskip("higher")
    net, batch = module(), episodes(2)
    for task in batch:
        optimiser = torch.optim.SGD(net.parameters(), lr=LR)
        with higher.innerloop_ctx(net, optimiser, copy_initial_weights=False) as (functional, steps):
            for _ in range(STEPS):
                steps.step(F.cross_entropy(functional(normalised(task.support)), task.support_labels))
            loss = F.cross_entropy(functional(normalised(task.query)), task.query_labels)
            (loss / len(batch)).backward()
    ours = meta_gradient(Net(SPEC), dict(net.named_parameters()), batch, inner_lr=LR, inner_steps=STEPS)
    assert_same_gradient(net, ours.grads)


def test_first_order_is_the_plain_gradient_at_the_adapted_parameters():
    net, (task,) = module(), episodes(1)
    params: Params = dict(net.named_parameters())
    ours = meta_gradient(Net(SPEC), params, [task], inner_lr=LR, inner_steps=STEPS, first_order=True)
    exact = meta_gradient(Net(SPEC), params, [task], inner_lr=LR, inner_steps=STEPS)
    descent = torch.optim.SGD(net.parameters(), lr=LR)
    for _ in range(STEPS):
        descent.zero_grad()
        F.cross_entropy(net(normalised(task.support)), task.support_labels).backward()
        descent.step()
    descent.zero_grad()
    logits = net(normalised(task.query))
    F.cross_entropy(logits, task.query_labels).backward()
    assert_same_gradient(net, ours.grads)
    assert ours.accuracy == pytest.approx((logits.argmax(1) == task.query_labels).double().mean().item())
    assert not torch.allclose(exact.grads["head.weight"], ours.grads["head.weight"])


@pytest.mark.parametrize("first_order", [False, True])
def test_neither_workers_nor_computing_twice_change_a_bit_and_threads_stay_as_they_were(first_order):
    net, batch = Net(SPEC), episodes(4, torch.float32)
    params = net.init(stream(2))
    torch.set_num_threads(2)
    ask = partial(meta_gradient, net, params, batch, inner_lr=LR, inner_steps=STEPS, first_order=first_order)
    results = [ask(workers=workers, recompute=recompute) for workers in (1, 2, 3) for recompute in (False, True)]
    assert torch.get_num_threads() == 2
    for other in results[1:]:
        assert other.loss == results[0].loss
        assert other.accuracy == results[0].accuracy
        assert all(torch.equal(other.grads[name], results[0].grads[name]) for name in params)


def test_the_mean_is_over_tasks():
    net, batch = Net(SPEC), episodes(3)
    params: Params = dict(module().named_parameters())
    together = meta_gradient(net, params, batch, inner_lr=LR, inner_steps=STEPS)
    alone = [meta_gradient(net, params, [task], inner_lr=LR, inner_steps=STEPS) for task in batch]
    for name, grad in together.grads.items():
        torch.testing.assert_close(grad, sum(one.grads[name] for one in alone) / 3)
    assert together.loss == pytest.approx(sum(one.loss for one in alone) / 3)


def test_an_empty_meta_batch_is_refused():
    with pytest.raises(ConfigError, match="at least one task"):
        mean_gradient({}, [], inner_lr=LR, inner_steps=STEPS)
