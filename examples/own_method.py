"""A method of one's own: one body, a linear head for each API, taught by what the APIs say of drawn pictures.

dfml learn zoo/ --method examples/own_method.py --set steps=500 --budget 2000 --out run/
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from dfml.events import Step
from dfml.images.prior import prior
from dfml.initialisation import Initialisation
from dfml.losses import distillation_kl
from dfml.methods.budgets import within_budgets
from dfml.methods.meta_model import MetaModelConfig
from dfml.nets.functional import Net, normalise
from dfml.nets.statistics import batch_statistics
from dfml.rng import stream


@dataclass(frozen=True, kw_only=True)
class Config:  # each field is a --set
    queries: int = 500
    steps: int = 300
    net: MetaModelConfig = MetaModelConfig()


PRESETS = {"default": Config()}


def plan(config, specs, *, budget, budget_per_api):
    limits = [config.queries, budget_per_api, None if budget is None else budget // len(specs)]
    queries = min(limit for limit in limits if limit is not None)
    return replace(config, queries=queries, net=config.net.fitted(specs))


def cost(config, specs):
    return within_budgets([config.queries] * len(specs), specs)


def run(config, place):
    net = Net(config.net.spec)
    images = prior(config.queries, seed=place.seed, size=net.spec.size, channels=net.spec.channels).float() / 255
    counts = cost(config, [api.spec for api in place.apis])
    # Every question passes the ledger: counted, never over the budget, never asked twice.
    answers = [
        api(F.interpolate(images[:count], api.spec.image[1:])) for api, count in zip(place.apis, counts, strict=True)
    ]
    body = {name: p.requires_grad_() for name, p in net.init(stream(place.seed, "body")).items()}
    width = body["head.weight"].shape[1]
    heads = [torch.zeros(width, api.spec.way, requires_grad=True) for api in place.apis]
    optimiser, rng = torch.optim.Adam([*body.values(), *heads], lr=1e-3), stream(place.seed, "batches")
    for step in range(config.steps):
        rows = torch.randint(min(counts), (min(64, min(counts)),), generator=rng)
        features = net.features(body, images[rows])
        losses = [distillation_kl(features @ head, told[rows]) for head, told in zip(heads, answers, strict=True)]
        optimiser.zero_grad()
        torch.stack(losses).mean().backward()
        optimiser.step()
        place.emit(Step(stage="distilling", done=step + 1, total=config.steps, objective=losses[0].item()))
    params = {name: p.detach() for name, p in body.items()}
    return Initialisation(params, net.spec, batch_statistics(net.spec, params, normalise(images)))
