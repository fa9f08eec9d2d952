"""Adam against torch.optim.Adam, bit for bit."""

import torch

from dfml.meta.adam import AdamState, adam
from dfml.rng import stream


def test_every_step_is_that_of_torch():
    rng = stream(0)
    params = {"a": torch.randn(7, 5, generator=rng), "b": torch.randn(3, generator=rng)}
    theirs = {name: p.clone().requires_grad_() for name, p in params.items()}
    optimiser = torch.optim.Adam(theirs.values(), lr=0.01, betas=(0.8, 0.99), eps=1e-6)
    state = AdamState.fresh(params)
    for _ in range(20):
        grads = {name: torch.randn(p.shape, generator=rng) for name, p in params.items()}
        for name, p in theirs.items():
            p.grad = grads[name].clone()
        optimiser.step()
        params, state = adam(params, grads, state, lr=0.01, betas=(0.8, 0.99), eps=1e-6)
        assert all(torch.equal(params[name], theirs[name].detach()) for name in params)
    assert state.steps == 20


def test_nothing_is_changed_in_place():
    params = {"a": torch.ones(3, requires_grad=True)}
    state = AdamState.fresh(params)
    moved, after = adam(params, {"a": torch.ones(3)}, state)
    assert torch.equal(params["a"], torch.ones(3))
    assert not state.first["a"].any()
    assert not moved["a"].requires_grad
    assert after.steps == 1
