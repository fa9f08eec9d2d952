"""Distil every API at once: one body, a linear head per API, KL to all answers about the images of a pool."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from dfml.nets.functional import Net, Params
from dfml.recovery.pool import Answers

NOWHERE = -1e4
"""the logit of a class that an API does not have"""


@dataclass(frozen=True, kw_only=True)
class ChorusDistilConfig:
    """How the answers become one student."""

    steps: int = 4000
    batch: int = 128
    lr: float = 4e-3
    """the peak of a one-cycle schedule"""
    jitter: float = 0.15
    """brightness, contrast and colour change by up to this much; the answers are taken to stay the same"""
    shift: int = 2
    """pixels of a 32-pixel image that it may move by; the answers are taken to stay the same"""
    weigh_at: float = 0.25
    """the part of the steps after which APIs are weighed by how predictable their answers are"""
    held_out: float = 0.1
    """the part of the images kept aside to weigh APIs with; they join the rest afterwards"""
    least_gain: float = 0.05
    """APIs whose answers are less predictable than this are dropped"""


def distil(
    net: Net,
    params: Params,
    answers: Answers,
    config: ChorusDistilConfig,
    *,
    rng: Generator,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Params, Tensor]:
    """Train the body of `params` on all answers; its own head stays as it is.

    Minimises, over the body and one linear head an API, the mean over (image, API) pairs that were asked of

        weight_a * KL(API a's answer || softmax(head_a(body(image))))

    Returns the parameters and the weight (m,) of each API, 0 for those that were dropped.
    """
    apis, way = answers.probs.shape[1:]
    body = {name: p.clone().requires_grad_() for name, p in params.items() if not name.startswith("head.")}
    width = params["head.weight"].shape[1]
    weight = ((torch.rand(apis * way, width, generator=rng) * 2 - 1) * width**-0.5).requires_grad_()
    bias = torch.zeros(apis * way, requires_grad=True)
    absent = torch.where(torch.arange(way) < answers.ways[:, None], 0.0, NOWHERE)
    optimiser = torch.optim.Adam([*body.values(), weight, bias], lr=config.lr, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.lr, total_steps=config.steps)

    def losses(batch: Answers, images: Tensor) -> Tensor:
        """KL (n, m) of every asked pair, 0 for the others."""
        logits = (net.features(body, images) @ weight.T + bias).view(-1, apis, way) + absent
        return F.kl_div(logits.log_softmax(-1), batch.probs, reduction="none").sum(-1) * batch.asked

    order = torch.randperm(len(answers.images), generator=rng)
    aside = order[: int(config.held_out * len(order))]
    pool, queue = order[len(aside) :], order[:0]
    trust = torch.ones(apis)
    for step in range(config.steps):
        if step == int(config.weigh_at * config.steps) and len(aside):
            with torch.no_grad():
                trust = _trust(answers.rows(aside), losses, least=config.least_gain)
            pool = order
        while len(queue) < config.batch:
            queue = torch.cat([queue, pool[torch.randperm(len(pool), generator=rng)]])
        batch, queue = answers.rows(queue[: config.batch]), queue[config.batch :]
        images = augment(batch.images.float() / 255, jitter=config.jitter, shift=config.shift, rng=rng)
        loss = (losses(batch, images) * trust).sum() / (batch.asked * trust).sum().clamp_min(1e-6)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        on_step(step, loss.item())
    return params | {name: p.detach() for name, p in body.items()}, trust


def _trust(aside: Answers, losses: Callable[[Answers, Tensor], Tensor], *, least: float) -> Tensor:
    """How much of each API's answers the student foresees on images it was not taught: (m,), mean 1 over those kept.

        gain_a = 1 - KL(answer || student) / KL(answer || mean answer)

    It is 0 for answers that do not depend on the image (constant, uniform) and at most 0 for random ones.
    """
    pairs = aside.asked.sum(0).clamp_min(1)
    ours = torch.cat([losses(part, part.images.float() / 255) for part in _parts(aside)]).sum(0) / pairs
    asked = aside.asked.unsqueeze(-1)
    mean = (aside.probs * asked).sum(0) / pairs.unsqueeze(-1)
    blind = (F.kl_div(mean.clamp_min(1e-9).log().expand_as(aside.probs), aside.probs, reduction="none") * asked).sum(-1)
    blind = blind.sum(0) / pairs
    gain = torch.where(blind > 1e-4, 1 - ours / blind.clamp_min(1e-4), 0.0)
    kept = gain.where(gain > least, 0.0).clamp_max(1)
    return kept / kept[kept > 0].mean() if bool((kept > 0).any()) else torch.ones_like(kept)


def _parts(answers: Answers) -> list[Answers]:
    """Batches of a size that batch statistics are sound for."""
    rows = torch.arange(len(answers.images))
    return [answers.rows(part) for part in rows.tensor_split(max(1, len(rows) // 128))]


def augment(images: Tensor, *, jitter: float, shift: int, rng: Generator) -> Tensor:
    """Images (n, c, h, w) in [0, 1], each mirrored or not, moved a little and in another light."""
    n, channels, height, width = images.shape

    def draw(planes: int) -> Tensor:
        return (torch.rand(n, planes, 1, 1, generator=rng) * 2 - 1) * jitter

    mirrored = torch.rand(n, 1, 1, 1, generator=rng) < 0.5
    images = torch.where(mirrored, images.flip(-1), images)
    if shift:
        reach = max(1, round(shift * height / 32))
        moved = []
        for part in F.pad(images, (reach,) * 4, mode="reflect").split(16):  # a slice moves together: no gather
            y, x = torch.randint(2 * reach + 1, (2,), generator=rng).tolist()
            moved.append(part[..., y : y + height, x : x + width])
        images = torch.cat(moved)
    if jitter:
        images = (images - 0.5) * (1 + draw(1)) + 0.5 + draw(1) / 2 + draw(channels) / 4
    return images.clamp(0, 1)
