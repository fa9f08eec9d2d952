"""Distil every API at once: one body, a linear head per API, KL to all answers about the images of a pool."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from dfml.files import load_tensors, save_tensors
from dfml.images.augment import augment
from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.trust import believed, foreseen, softened
from dfml.nets.expected_answers import ExpectedAnswers, weight_of_answers
from dfml.nets.functional import Net, Params

NOWHERE = -1e4
"""the logit of a class that an API does not have"""

KIND, VERSION = "chorus checkpoint", 2


@dataclass(frozen=True, kw_only=True)
class ChorusDistilConfig:
    """How the answers become one student."""

    steps: int = 0
    """updates; 0: as many as suit the number of images"""
    batch: int = 128
    lr: float = 4e-3
    """the peak of a one-cycle schedule"""
    jitter: float = 0.15
    """brightness, contrast and colour change by up to this much; the answers are taken to stay the same"""
    shift: int = 2
    """pixels of a 32-pixel image that it may move by; the answers are taken to stay the same"""
    power: float = 0.0
    """answers p are distilled as p^power, made to sum to 1; 0: 0.5 with pictures of the user's own, else 1"""
    weigh_at: float = 0.25
    """the part of the steps after which APIs are dropped whose answers cannot be foreseen"""
    held_out: float = 0.1
    """the part of the images kept aside to judge APIs by; they join the rest afterwards"""
    least_gain: float = 0.02
    """APIs whose answers are foreseen less than this are dropped"""
    least_sure: float = 3.0
    """standard errors that the gain must be above 0"""
    least_share: float = 0.4
    """APIs that are foreseen less than this part as well as the median of the others are dropped, too"""


class ChorusStudent:
    """One body with a linear head for each API, in training on all their answers.

    Minimises, over the body and the heads, the mean over (image, API) pairs that were asked of

        trust_a * KL(API a's answer || softmax(head_a(body(image))))

    `params` is where the body starts; their own head stays as it is. `advance` makes one update. `save` and `load` are
    exact: a student that is loaded goes on to the same bits. Everything but the order of the images, which is drawn on
    the CPU, is where `params` and `answers` are.
    """

    def __init__(
        self, net: Net, params: Params, answers: AnswerTable, config: ChorusDistilConfig, *, rng: Generator
    ) -> None:
        self.net, self.answers, self.config, self.rng = net, answers, config, rng
        self.apis, self.way = answers.probs.shape[1:]
        self.head = {name: p for name, p in params.items() if name.startswith("head.")}
        self.body = {name: p.clone().requires_grad_() for name, p in params.items() if name not in self.head}
        device, width = answers.probs.device, params["head.weight"].shape[1]
        weight = (torch.rand(self.apis * self.way, width, generator=rng) * 2 - 1) * width**-0.5
        self.weight = weight.to(device).requires_grad_()
        self.bias = torch.zeros(self.apis * self.way, requires_grad=True, device=device)
        self.absent = torch.where(torch.arange(self.way, device=device) < answers.ways[:, None], 0.0, NOWHERE)
        self.optimiser = torch.optim.Adam(list(self._trained().values()), lr=config.lr, fused=True)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimiser, config.lr, total_steps=config.steps)
        self.step = 0
        self.order = torch.randperm(len(answers.images), generator=rng)
        self.queue = self.order[:0]
        self.trust = torch.ones(self.apis, device=device)
        self.gain = torch.ones(self.apis, device=device)

    @property
    def params(self) -> Params:
        """The body as it is now, with the head it came with."""
        return self.head | {name: p.detach() for name, p in self.body.items()}

    def expected(self, images: Tensor) -> ExpectedAnswers:
        """The heads of the APIs that were kept, centred on the answers expected for `images` (n, c, h, w) in [0, 1]."""
        kept = (self.trust > 0).nonzero().squeeze(1)
        weight = self.weight.detach().view(self.apis, self.way, -1)[kept].flatten(0, 1)
        bias = (self.bias.detach().view(self.apis, self.way) + self.absent)[kept].flatten()
        with torch.no_grad():
            features = self.net.features(self.params, images)
        r = weight_of_answers(self.gain[kept], self.answers.ways[kept], features=features.shape[1])
        return ExpectedAnswers.centred_on(weight, bias, features, apis=len(kept), answer_weight=r)

    def advance(self) -> float:
        """One update; the loss it was made for."""
        config = self.config
        aside = int(config.held_out * len(self.order))
        weigh_at = int(config.weigh_at * config.steps)
        if self.step == weigh_at and aside:
            with torch.no_grad():
                self._weigh(self.order[:aside], self.order[aside:])
        pool = self.order[aside:] if self.step < weigh_at else self.order
        while len(self.queue) < config.batch:
            self.queue = torch.cat([self.queue, pool[torch.randperm(len(pool), generator=self.rng)]])
        batch, self.queue = self.answers.rows(self.queue[: config.batch]), self.queue[config.batch :]
        images = augment(batch.images.float() / 255, jitter=config.jitter, shift=config.shift, rng=self.rng)
        loss = (self._losses(batch, images) * self.trust).sum() / (batch.asked * self.trust).sum().clamp_min(1e-6)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        self.step += 1
        return loss.item()

    def save(self, path: Path) -> None:
        """Everything that `advance` changes, and which answers it belongs to."""
        tensors = {"queue": self.queue, "trust": self.trust, "gain": self.gain, "rng": self.rng.get_state()}
        for name, p in self._trained().items():
            tensors |= {f"{key}.{name}": value for key, value in {"value": p, **self.optimiser.state[p]}.items()}
        about = {
            "step": self.step,
            "answers": self.answers.digest(),
            "groups": self.optimiser.state_dict()["param_groups"],
            "schedule": self.schedule.state_dict(),
        }
        save_tensors(path, tensors, kind=KIND, version=VERSION, about=about)

    def load(self, path: Path) -> bool:
        """Go on where `save` was called; False, and nothing changed, if that student learned from other answers."""
        tensors, about = load_tensors(path, kind=KIND, version=VERSION)
        if about["answers"] != self.answers.digest():
            return False
        moments: dict[int, dict[str, Tensor]] = {}
        for index, (name, p) in enumerate(self._trained().items()):
            p.data.copy_(tensors[f"value.{name}"])
            if f"step.{name}" in tensors:  # a bias that batch statistics cancel has no gradient and no moments
                moments[index] = {key: tensors[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
        self.optimiser.load_state_dict({"state": moments, "param_groups": about["groups"]})
        self.schedule.load_state_dict(about["schedule"])
        self.queue, self.step = tensors["queue"], about["step"]
        self.trust, self.gain = (tensors[name].to(self.bias.device) for name in ("trust", "gain"))
        self.rng.set_state(tensors["rng"])
        return True

    def _trained(self) -> dict[str, Tensor]:
        """In the order the optimiser was given."""
        return {**self.body, "heads.weight": self.weight, "heads.bias": self.bias}

    def _losses(self, batch: AnswerTable, images: Tensor) -> Tensor:
        """KL (n, m) of every asked pair, 0 for the others."""
        told = softened(batch.probs, self.config.power or 1.0)
        return F.kl_div(self._log_answers(images), told, reduction="none").sum(-1) * batch.asked

    def _log_answers(self, images: Tensor) -> Tensor:
        """What is expected of every API (n, m, k)."""
        logits: Tensor = self.net.features(self.body, images) @ self.weight.T + self.bias
        logits = logits.view(-1, self.apis, self.way) + self.absent
        return logits.log_softmax(-1)

    def _weigh(self, aside: Tensor, learned: Tensor) -> None:
        """Decide whom to believe, by images (rows of the table) that were not learned from."""
        config, power = self.config, self.config.power or 1.0
        mean = torch.zeros_like(self.answers.probs[0])
        for part in _parts(self.answers, learned):
            mean += (softened(part.probs, power) * part.asked.unsqueeze(-1)).sum(0)
        mean /= self.answers.rows(learned).asked.sum(0).clamp_min(1).unsqueeze(-1)
        parts = [
            (softened(part.probs, power), self._log_answers(part.images.float() / 255), part.asked)
            for part in _parts(self.answers, aside)
        ]
        self.gain, sureness = foreseen(parts, mean)
        self.trust = believed(
            self.gain, sureness, least=config.least_gain, sure=config.least_sure, share=config.least_share
        )


def _parts(answers: AnswerTable, rows: Tensor) -> list[AnswerTable]:
    """Batches of a size that batch statistics are sound for."""
    return [answers.rows(part) for part in rows.tensor_split(max(1, len(rows) // 128))]
