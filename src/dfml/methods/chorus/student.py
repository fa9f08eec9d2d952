"""Distil every API at once: one body, a linear head per API, near to all answers about the images of a pool."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import Literal

import torch
from torch import Generator, Tensor

from dfml.config import above_zero, zero_or_more
from dfml.errors import ConfigError
from dfml.files import OtherFormat, load_tensors, save_tensors
from dfml.images.augment import augment
from dfml.methods.chorus.asking import AnswerTable
from dfml.methods.chorus.descent import Descent
from dfml.methods.chorus.heads import AnswerHeads
from dfml.methods.chorus.misfit import Directions, Misfit, Probabilities
from dfml.methods.chorus.trust import believed
from dfml.methods.chorus.vocabulary import Vocabulary
from dfml.nets.answer_directions import MANY_CLASSES
from dfml.nets.expected_answers import ExpectedAnswers, weight_of_answers
from dfml.nets.functional import Net, Params
from dfml.nets.sight import looks
from dfml.runtime import Map

KIND, VERSION = "chorus checkpoint", 6


@dataclass(frozen=True, kw_only=True)
class ChorusDistilConfig:
    """How the answers become one student."""

    steps: int = 0
    """updates; 0: as many as suit the number of images"""
    batch: int = 128
    parts: int = 2
    """that a batch is cut into: each is normalised by itself, and so many cores can share an update"""
    heard: int = 256
    """APIs that an update listens to, drawn anew each time where there are more: its cost does not grow with them"""
    lr: float = 4e-3
    """the peak of a one-cycle schedule"""
    optimiser: Literal["auto", "muon", "adam"] = "auto"
    """how filters are stepped: muon turns them along evened gradients (`descent`); auto says so"""
    turn: float = 0.03
    """muon: radians that a layer's filters turn by in an update at the peak of the schedule"""
    jitter: float = 0.15
    """brightness, contrast and colour change by up to this much; the answers are taken to stay the same"""
    shift: int = 2
    """pixels of a 32-pixel image that it may move by; the answers are taken to stay the same"""
    compare: Literal["auto", "probabilities", "directions"] = "auto"
    """what of an answer is to be met: its probabilities, by KL, or its direction, by cosine (`misfit`); auto takes the
    direction where most APIs have more than 20 classes"""
    classes: Literal["auto", "by-name", "apart"] = "auto"
    """whether classes that several APIs know by one name are one to the student; auto says so (`vocabulary`)"""
    power: float = 0.0
    """probabilities p are met as p^power, made to sum to 1; 0: 0.5 with pictures of the user's own, else 1"""
    weigh_at: float = 0.25
    """the part of the steps after which APIs are dropped whose answers cannot be foreseen"""
    held_out: float = 0.1
    """the part of the images kept aside to judge APIs by; they join the rest afterwards"""
    least_gain: float = 0.02
    """APIs whose answers are surely foreseen less than this are dropped"""
    least_sure: float = 3.0
    """standard errors that make sure: nobody is dropped for what a few answers seem to show"""
    least_share: float = 0.4
    """APIs that are surely foreseen less than this part as well as the median of the others are dropped, too"""

    def __post_init__(self) -> None:
        above_zero(self, "distil", "batch", "parts", "heard", "lr")
        zero_or_more(self, "distil", "steps", "turn", "jitter", "power")
        if self.parts > self.batch:
            raise ConfigError(f"distil.parts={self.parts} cannot be: a batch has {self.batch} pictures")
        if not 0 <= self.shift < 16:
            raise ConfigError(f"distil.shift must be from 0 to below 16 pixels of 32, not {self.shift}")
        if not 0 <= self.held_out < 1:
            raise ConfigError(f"distil.held_out must be from 0 to below 1, not {self.held_out}")
        if not 0 <= self.weigh_at <= 1:
            raise ConfigError(f"distil.weigh_at must be from 0 to 1, not {self.weigh_at}")


class ChorusStudent:
    """One body with a linear head for each API, in training on all their answers.

    Minimises, over the body and the heads, the mean over (image, API) pairs that were asked of

        trust_a * misfit(API a's answer, softmax(head_a(body(image))))

    where the misfit is KL or, for APIs of many classes, lies in the direction of an answer (`misfit`). Heads share what
    `vocabulary` says is one class.

    `params` is where the body starts; their own head stays as it is. `advance` makes one update; `side_by_side` shares
    it out to cores, which changes no bit. `save` and `load` are exact: a student that is loaded goes on to the same
    bits. Everything but the order of the images, which is drawn on the CPU, is where `params` and `answers` are.
    """

    def __init__(
        self,
        net: Net,
        params: Params,
        answers: AnswerTable,
        config: ChorusDistilConfig,
        *,
        vocabulary: Vocabulary,
        rng: Generator,
        side_by_side: Map = map,
    ) -> None:
        self.net, self.answers, self.config, self.rng, self.side_by_side = net, answers, config, rng, side_by_side
        self.apis = answers.probs.shape[1]
        self.head = {name: p for name, p in params.items() if name.startswith("head.")}
        self.body = {name: p.clone().requires_grad_() for name, p in params.items() if name not in self.head}
        features, device = params["head.weight"].shape[1], answers.probs.device
        self.heads = AnswerHeads(vocabulary, features=features, rng=rng, device=device)
        angle = config.turn if config.optimiser == "muon" else 0.0
        self.descent = Descent(self.body, lr=config.lr, angle=angle, steps=config.steps, side_by_side=side_by_side)
        self.step = 0
        self.order = torch.randperm(len(answers.images), generator=rng)
        self.queue = self.order[:0]
        self.trust = torch.ones(self.apis, device=device)
        self.gain = torch.ones_like(self.trust)
        many = config.compare == "auto" and float(answers.ways.median()) > MANY_CLASSES
        self.misfit: Misfit = Probabilities(config.power or 1.0)
        if many or config.compare == "directions":
            self.misfit = Directions(_parts(answers, self.order), self.heads.present)

    @property
    def params(self) -> Params:
        """The body as it is now, with the head it came with."""
        return self.head | {name: p.detach() for name, p in self.body.items()}

    @torch.no_grad()
    def expected(self, images: Tensor) -> ExpectedAnswers:
        """What the APIs that were kept would say if each knew all classes of its circle (`AnswerHeads.circles`).

        Centred on what is expected for `images` (n, c, h, w) in [0, 1].
        """
        kept = (self.trust > 0).nonzero().squeeze(1)
        weight, bias = self.heads.circles(kept)
        # In batches: each large enough for its own statistics, small enough for the memory.
        batches = images.tensor_split(max(1, len(images) // 512))
        looked = [looks(self.net.spec, self.net.maps(self.params, batch)) for batch in batches]
        seen = [torch.cat(look) for look in zip(*looked, strict=True)]
        gain = self.gain[kept]
        share = gain.square() if self.misfit.directions else gain  # of an answer: a cosine explains its square
        r = weight_of_answers(share, self.answers.ways[kept], directions=self.misfit.directions)
        return ExpectedAnswers.centred_on(
            weight.flatten(0, 1),
            bias.flatten(),
            seen,
            apis=len(bias),
            answer_weight=r,
            directions=self.misfit.directions,
        )

    def advance(self) -> float:
        """One update; the loss it was made for."""
        rows, heard = self._next_images(), self._next_apis()
        trust, layers = self.trust[heard], self.heads.of(heard)
        trained = {**self.body, **layers}
        seeds = torch.randint(2**62, (self.config.parts,), generator=self.rng).tolist()

        def gradient(rows: Tensor, seed: int) -> tuple[Tensor, Tensor, Sequence[Tensor | None]]:
            """Of one part of the batch, which draws from a stream of its own: it may be computed in any order."""
            part, rng = self.answers.part(rows, heard), Generator().manual_seed(seed)
            images = augment(part.images.float() / 255, jitter=self.config.jitter, shift=self.config.shift, rng=rng)
            logits = self.heads.logits(self.net.features(self.body, images), layers, heard)
            losses = self.misfit(logits, part, heard) * part.asked
            total = (losses * trust).sum()
            gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
            return total.detach(), (part.asked * trust).sum(), gradients

        results = self.side_by_side(
            lambda work: gradient(*work), zip(rows.tensor_split(len(seeds)), seeds, strict=True)
        )
        totals, counts, gradients = zip(*results, strict=True)
        pairs = reduce(add, counts).clamp_min(1e-6)
        means = (None if total is None else total / pairs for total in _sums(gradients))
        self._descend(heard, dict(zip(trained, means, strict=True)))
        return float(reduce(add, totals) / pairs)

    def save(self, path: Path) -> None:
        """Everything that `advance` changes, and which answers it belongs to."""
        tensors = {"queue": self.queue, "trust": self.trust, "gain": self.gain, "rng": self.rng.get_state()}
        tensors |= {f"heads.{name}": value for name, value in self.heads.state().items()}
        body, descent = self.descent.state()
        about = {"step": self.step, "answers": self._digest, "descent": descent}
        save_tensors(path, tensors | body, kind=KIND, version=VERSION, about=about)

    def load(self, path: Path) -> bool:
        """Go on where `save` was called; False, and nothing changed, if that student learned from other answers.

        Also if another version of dfml saved it: what was paid for are the answers, and they are on file.
        """
        try:
            tensors, about = load_tensors(path, kind=KIND, version=VERSION)
        except OtherFormat:
            return False
        if about["answers"] != self._digest:
            return False
        self.descent.restore(tensors, about["descent"])
        self.heads.restore({name.removeprefix("heads."): value for name, value in tensors.items()})
        self.queue, self.step = tensors["queue"], about["step"]
        self.trust, self.gain = (tensors[name].to(self.trust.device) for name in ("trust", "gain"))
        self.rng.set_state(tensors["rng"])
        return True

    @cached_property
    def _digest(self) -> str:
        return self.answers.digest()

    def _next_images(self) -> Tensor:
        """Rows of the next batch; before the first after `weigh_at`, whom to believe is decided."""
        config = self.config
        aside, weigh_at = int(config.held_out * len(self.order)), int(config.weigh_at * config.steps)
        if self.step == weigh_at and aside:
            with torch.no_grad():
                self._weigh(self.order[:aside], self.order[aside:])
        pool = self.order[aside:] if self.step < weigh_at else self.order
        while len(self.queue) < config.batch:
            self.queue = torch.cat([self.queue, pool[torch.randperm(len(pool), generator=self.rng)]])
        rows, self.queue = self.queue[: config.batch], self.queue[config.batch :]
        return rows

    def _next_apis(self) -> Tensor:
        """Whom the next update listens to: all that are believed, or as many of them as `heard`."""
        believed = (self.trust > 0).nonzero().squeeze(1)
        if len(believed) <= self.config.heard:
            return believed
        drawn = torch.randperm(len(believed), generator=self.rng)[: self.config.heard].sort().values
        return believed[drawn.to(believed.device)]

    def _descend(self, heard: Tensor, gradient: dict[str, Tensor | None]) -> None:
        """One step of the body, and one of Adam for the heads that were listened to."""
        heads = {name: grad for name in self.heads.values if (grad := gradient[name]) is not None}
        self.heads.update(heard, heads, lr=self.descent.lr, betas=self.descent.betas)
        self.descent.step(gradient)
        self.step += 1

    def _weigh(self, aside: Tensor, learned: Tensor) -> None:
        """Decide whom to believe, by images (rows of the table) that were not learned from."""
        config, everyone = self.config, torch.arange(self.apis, device=self.trust.device)
        layers, said = self.heads.of(everyone), _parts(self.answers, aside)
        features = [self.net.features(self.body, part.images.float() / 255) for part in said]
        logits = [self.heads.logits(seen, layers, everyone) for seen in features]
        judged = self.misfit.judged(logits, said, _parts(self.answers, learned), sure=config.least_sure)
        self.gain = judged.gain
        self.trust = believed(judged, least=config.least_gain, share=config.least_share)


def _parts(answers: AnswerTable, rows: Tensor) -> list[AnswerTable]:
    """Batches of a size that batch statistics are sound for."""
    return [answers.rows(part) for part in rows.tensor_split(max(1, len(rows) // 128))]


def _sums(parts: Sequence[Sequence[Tensor | None]]) -> list[Tensor | None]:
    """The sums over parts, in their order, of several tensors; None where a part has none."""
    columns = ([tensor for tensor in column if tensor is not None] for column in zip(*parts, strict=True))
    return [reduce(add, column) if column else None for column in columns]
