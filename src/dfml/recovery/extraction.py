"""Model extraction: a generator looks for images on which a clone still differs from its API (DFME and MAZE).

Round after round the generator takes a step towards images that API and clone answer differently, along a gradient
estimated from answers alone, and the clone takes a few towards the API's answers on what the generator then paints.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dfml.apis.blackbox import BlackBox
from dfml.config import above_zero, zero_or_more
from dfml.errors import ConfigError
from dfml.hardware import device_of
from dfml.images.generator import Generator
from dfml.losses import divergence, logit_distance
from dfml.nets.functional import Net, Params
from dfml.recovery.frozen_student import frozen_student
from dfml.recovery.gradients import snap, sphere
from dfml.recovery.objectives import unrounded

MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4
"""of the clone, and of MAZE's generator: in both papers' code"""
UPDATE_SECONDS = 6e-4
"""one core's, of one image in one update of generator or clone at 32 x 32"""

OnRound = Callable[[int, float, float, int], None]
"""on_round(round, mean distance of clone and API, fraction they name alike, queries so far)"""


@dataclass(frozen=True, kw_only=True)
class ExtractionConfig:
    """How one API is extracted; see `queries` for what that costs."""

    game: Literal["dfme", "maze"] = "dfme"
    """"dfme": L1 between logits recovered from answers, a generator by Adam. "maze": KL(API || clone), a generator by
    descent with momentum, replay, and a first clone step on the images that the generator was judged by"""
    rounds: int = 100
    batch: int = 64
    """images a step, of generator and clone alike"""
    directions: int = 1
    """random directions of a gradient estimate; each is one query an image"""
    radius: float = 5e-3
    """length of a probe in [0, 1] pixel space; 8-bit endpoints at 32x32 need about 0.5 to notice one"""
    clone_steps: int = 5
    """updates of the clone a round, each on images of its own"""
    replay_steps: int = 10
    """of "maze": further updates a round, on images that were asked about before"""
    clone_lr: float = 0.03
    """falls to 0 as a cosine"""
    generator_lr: float = 1e-3
    latent: int = 256
    filters: int = 32

    def __post_init__(self) -> None:
        above_zero(self, "extraction", "rounds", "directions", "radius", "clone_steps", "clone_lr", "generator_lr")
        above_zero(self, "extraction", "latent", "filters")
        zero_or_more(self, "extraction", "replay_steps")
        if self.batch < 2:
            raise ConfigError(f"extraction.batch must be 2 or more, for BatchNorm's sake, not {self.batch}")

    @property
    def images(self) -> int:
        """Images that are asked about for their own sake; the others are probes around them."""
        return self.rounds * self.batch * (self.clone_steps + (self.game == "dfme"))

    @property
    def queries(self) -> int:
        """What one API costs."""
        return self.images + self.rounds * self.batch * self.directions

    @property
    def seconds(self) -> float:
        """Of one core, besides asking, roughly."""
        updates = 1 + self.directions + self.clone_steps + (self.replay_steps if self.game == "maze" else 0)
        return self.rounds * self.batch * updates * UPDATE_SECONDS


class Extraction(NamedTuple):
    """A clone, and what it learned from."""

    clone: Params
    images: Tensor  # (n, c, h, w) asked about for their own sake, in [0, 1]
    probs: Tensor  # (n, k) the API's answers to exactly these
    queries: int
    reached: float  # the fraction of the last round's images that clone and API named alike, before learning from them


def extract(
    api: BlackBox,
    net: Net,
    start: Params,
    config: ExtractionConfig,
    *,
    rng: torch.Generator,
    on_round: OnRound | None = None,
) -> Extraction:
    """A clone of `api`, begun at `start`, where everything is computed.

    All randomness comes from `rng`: after an `ApiError` the same call with the same stream asks the same questions
    again, in the same order.
    """
    game = _Game(api, net, start, config, rng)
    for number in range(config.rounds):
        game.play_round()
        if on_round is not None:
            on_round(number, game.distance, game.agreement, game.queries)
    clone = {name: p.detach() for name, p in game.clone.items()}
    return Extraction(clone, torch.cat(game.images), torch.cat(game.probs), game.queries, game.agreement)


class _Game:
    def __init__(self, api: BlackBox, net: Net, start: Params, config: ExtractionConfig, rng: torch.Generator) -> None:
        self.api, self.net, self.config, self.rng = api, net, config, rng
        self.device, shape = device_of(start), net.spec
        self.generator = Generator(
            rng=rng, size=shape.size, channels=shape.channels, filters=config.filters, latent=config.latent
        )
        self.generator.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.clone = {name: p.detach().clone().requires_grad_() for name, p in start.items()}
        self.copying = torch.optim.SGD(
            list(self.clone.values()), lr=config.clone_lr, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
        )
        weights = list(self.generator.parameters())
        self.painting: torch.optim.Optimizer
        if config.game == "dfme":
            self.apart, self.painting = logit_distance, torch.optim.Adam(weights, lr=config.generator_lr)
        else:
            self.apart, self.painting = (
                divergence,
                torch.optim.SGD(weights, lr=config.generator_lr, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY),
            )
        self.images: list[Tensor] = []
        self.probs: list[Tensor] = []
        self.queries, self.round = 0, 0
        self.distance = self.agreement = 0.0

    def play_round(self) -> None:
        faded = (1 + math.cos(math.pi * self.round / self.config.rounds)) / 2
        self.copying.param_groups[0]["lr"] = self.config.clone_lr * faded
        judged, answers = self._challenge()
        for step in range(self.config.clone_steps):
            if self.config.game == "maze" and step == 0:
                self._imitate(judged, answers)
            else:
                with torch.no_grad():
                    images = self._arriving(self._paint())
                self._imitate(images, self._ask(images))
        if self.config.game == "maze":
            self._replay()
        self.round += 1

    def _challenge(self) -> tuple[Tensor, Tensor]:
        """A step of the generator away from agreement; the images it was judged by, and the API's answers to them."""
        painted = self._paint()
        x = self._arriving(painted.detach())
        params = {name: p.detach() for name, p in self.clone.items()}
        clone = frozen_student(self.net, params, x)
        probs, logits = self._ask(x), clone(x)
        value = -self.apart(logits, probs)
        self.distance = -value.mean().item()
        self.agreement = (logits.argmax(1) == probs.argmax(1)).float().mean().item()

        def agreement(probes: Tensor) -> Tensor:
            images = probes.flatten(0, 1)
            answers = unrounded(self.api(images), self.api.spec.decimals)
            return -self.apart(clone(images), answers).view(probes.shape[:2])

        config = self.config
        estimate = sphere(
            agreement,
            x,
            directions=config.directions,
            radius=config.radius,
            rng=self.rng,
            value=value,
            levels=self.api.spec.levels,
        )
        self.queries += estimate.queries
        self.painting.zero_grad()
        torch.autograd.backward(painted, estimate.gradient / len(x))
        self.painting.step()
        return x, probs

    def _replay(self) -> None:
        """MAZE's: what was asked before is learned from again, so that the clone keeps what the generator has left."""
        images, probs = torch.cat(self.images), torch.cat(self.probs)
        for _ in range(self.config.replay_steps):
            rows = torch.randperm(len(images), generator=self.rng)[: self.config.batch].to(self.device)
            self._imitate(images[rows], probs[rows])

    def _imitate(self, images: Tensor, probs: Tensor) -> None:
        self.copying.zero_grad()
        self.apart(self.net(self.clone, images), probs).mean().backward()
        self.copying.step()

    def _paint(self) -> Tensor:
        z = torch.randn(self.config.batch, self.config.latent, generator=self.rng).to(self.device)
        images: Tensor = self.generator(z)
        return images

    def _arriving(self, images: Tensor) -> Tensor:
        """What is left of images after an upload."""
        return snap(images.contiguous().clone(), self.api.spec.levels)

    def _ask(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            probs = unrounded(self.api(images), self.api.spec.decimals)
        self.queries += len(images)
        self.images.append(images)
        self.probs.append(probs)
        return probs
