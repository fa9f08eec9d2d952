"""The inner loop: a value, not a mutation."""

from collections.abc import Callable

import torch
from torch import Tensor

from dfml.nets.functional import Params


def adapt(
    params: Params, loss: Callable[[Params], Tensor], *, lr: float, steps: int, first_order: bool = False
) -> Params:
    """`steps` of gradient descent on `loss` from `params`, differentiable in `params`.

        theta <- theta - lr * d loss(theta) / d theta

    With `first_order` the gradients count as constants, so that d adapted / d params is the identity (FOMAML) and no
    graph of the steps is kept. A parameter that the loss does not reach stays as it is. `params` that do not require
    gradients are as welcome: the result is then good for everything but a meta-gradient.
    """
    params = {name: p if p.requires_grad else p.detach().requires_grad_() for name, p in params.items()}
    for _ in range(steps):
        with torch.enable_grad():
            grads = torch.autograd.grad(
                loss(params), list(params.values()), create_graph=not first_order, materialize_grads=True
            )
            params = {name: p.sub(g, alpha=lr) for (name, p), g in zip(params.items(), grads, strict=True)}
    return params
