"""The offline half of a classifier: the learned network, adapted to a support set and frozen."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dfml.adaptation.answer_features import class_cosines, class_sums, student_scale
from dfml.adaptation.heads import Head, best_head, check_expected, class_directions, fine_tune, prototype_layer
from dfml.adaptation.inputs import as_floats
from dfml.apis.blackbox import fit_to
from dfml.errors import ConfigError
from dfml.initialisation import Initialisation
from dfml.nets import Classifier, NetSpec
from dfml.nets.expected_answers import ExpectedAnswers
from dfml.nets.functional import Net, features_of, head_for, normalise
from dfml.nets.sight import looks
from dfml.nets.statistics import batch_statistics, blend, frozen

SUPPORT_WEIGHT = 0.2
"""how much the support set's statistics count against those of learning; chosen on validation classes"""


class FrozenClassifier(nn.Module):
    """A network that stands still: normalised images -> logits, each image by itself.

    Where it compares, the logits are `scale` times the cosines of an image's direction with the class means. A class
    mean of more images lies nearer to the truth, so `scale` grows with the shots; see `answer_features`. With `towards`
    and `centre`, they are instead how far the image lies from the centre in the direction of each class. With `mirror`,
    an image's direction is the mean of its own and its mirror image's.
    """

    sums: Tensor | None  # (way, d) of the directions of the support set; None: score with the network's last layer
    towards: Tensor | None  # (way, d)
    centre: Tensor | None  # (d,)
    scale: Tensor  # ()
    examples: tuple[Tensor, Tensor] | None = None
    """directions (n, d) and labels (n,) of the support set, where it compares; not saved"""

    def __init__(
        self,
        spec: NetSpec,
        net: Classifier,
        *,
        sums: Tensor | None = None,
        towards: Tensor | None = None,
        centre: Tensor | None = None,
        scale: float = 1.0,
        expected: ExpectedAnswers | None = None,
        mirror: bool = False,
    ) -> None:
        super().__init__()
        self.spec, self.mirror = spec, mirror
        self.net = net.eval().requires_grad_(False)
        self.expected = expected
        self.register_buffer("sums", sums)
        self.register_buffer("towards", towards)
        self.register_buffer("centre", centre)
        self.register_buffer("scale", torch.tensor(scale))

    @property
    def device(self) -> torch.device:
        return self.net.head.weight.device

    def forward(self, x: Tensor) -> Tensor:
        if self.sums is None:
            logits: Tensor = self.net(self._laid_out(x))
            return logits
        directions = self.directions(x)
        if self.towards is None or self.centre is None:
            return self.scale * F.linear(directions, F.normalize(self.sums, dim=1))
        return self.scale * F.linear(directions - self.centre, F.normalize(self.towards, dim=1))

    def directions(self, x: Tensor) -> Tensor:
        """The direction (n, d) of every image's features, joined by its expected answers where those are known."""
        seen = self._seen(x)
        return F.normalize(seen + self._seen(x.flip(-1)) if self.mirror else seen, dim=1)

    def inputs(self, x: Tensor) -> Iterator[Tensor]:
        """Images of any size, uint8 or float in [0, 1], as it takes them, some at a time."""
        shape = (self.spec.channels, self.spec.size, self.spec.size)
        for part in x.split(256):
            yield normalise(fit_to(as_floats(part), shape)).to(self.device)

    def leave_one_out(self) -> Tensor:
        """Probabilities (n, way) for the support set, each image compared with class means that it is no part of."""
        directions, labels = self._examples()
        member = F.one_hot(labels, self.spec.way).to(directions.dtype)
        cosines = class_cosines(directions, directions.new_zeros(self.spec.way, directions.shape[1]), member)
        return (self.scale * cosines).softmax(1)

    def nearest(self, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The `count` images of the support set most alike to each of x: their places (m, count) and cosines."""
        directions, _ = self._examples()
        with torch.inference_mode():
            found = [self.directions(part) @ directions.T for part in self.inputs(x)]
        cosines = torch.cat(found) if found else directions.new_zeros(0, len(directions))
        best = cosines.topk(min(count, len(directions)), dim=1)
        return best.indices, best.values

    def _examples(self) -> tuple[Tensor, Tensor]:
        if self.examples is None:
            raise ConfigError(
                "only a classifier that compares, and was fitted by this process, knows its examples; fit one with the "
                "head prototype or answers"
            )
        return self.examples

    def _seen(self, x: Tensor) -> Tensor:
        maps = self.net.maps(self._laid_out(x))
        return features_of(self.spec, maps[-1]) if self.expected is None else self.expected(looks(self.spec, maps))

    def _laid_out(self, x: Tensor) -> Tensor:
        """In the order of memory that is fastest."""
        return x.contiguous(memory_format=self.spec.memory_format)


def adapt_student(
    init: Initialisation,
    x: Tensor,
    y: Tensor,
    way: int,
    *,
    head: Head | None,
    lr: float,
    steps: int,
    support_weight: float,
    mirror: bool,
) -> FrozenClassifier:
    """The network of `init` for the classes of a support set: images x (n, c, h, w) in [0, 1], labels y (n,).

    `mirror`: whether an image and its mirror image show the same, so that expected answers may be those to both.
    """
    net, params = Net(init.net), dict(init.params)
    head = head or best_head(init.expected)
    check_expected(head, init.expected)
    spec = NetSpec(arch=init.net.arch, way=way, size=init.net.size, channels=init.net.channels, width=init.net.width)
    compares = head in ("prototype", "answers")
    if head == "finetune":
        _, params = head_for(net, params, way)
    if head == "prototype+finetune":
        with torch.no_grad():
            params |= prototype_layer(net.features(params, x), y, way)
    if compares:  # the layer for class scores is not used
        weight = params["head.weight"]
        params |= {"head.weight": weight.new_zeros(way, weight.shape[1]), "head.bias": weight.new_zeros(way)}
    else:
        start = {name: p.detach().requires_grad_() for name, p in params.items()}
        params = fine_tune(Net(spec), start, x, y, lr=lr, steps=steps)
    statistics = batch_statistics(spec, params, normalise(x))
    if init.statistics and support_weight < 1:
        statistics = blend(statistics, init.statistics, support_weight)
    expected = init.expected if head == "answers" else None
    mirror = mirror and expected is not None
    adapted = FrozenClassifier(spec, frozen(spec, params, statistics), expected=expected, mirror=mirror)
    if compares:
        adapted.examples = adapted.directions(normalise(x)), y
        adapted.sums = class_sums(*adapted.examples, way)
        if head == "answers":
            adapted.towards, adapted.centre = class_directions(*adapted.examples, way)
        adapted.scale.fill_(student_scale(len(y) / way, "nothing" if expected is None else "learning"))
    return adapted
