"""What APIs' answers about a task's own images say of its classes: pure functions of tensors.

n images, W classes of the task, m APIs, K classes of an API, k shots. The constants were chosen on validation classes
(docs/real.md).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from dfml.nets.answer_directions import answer_directions

Centre = Literal["nothing", "learning", "batch"]
"""what a student's directions are measured from: features from nothing, expected answers from their mean when learning,
and where a whole batch is judged together, features from the mean of all images at hand"""
STUDENT_SCALES: dict[Centre, tuple[float, float]] = {"nothing": (6.5, 1 / 2), "learning": (3.4, 1 / 3)}
"""a and b: the student's logits are a k^b cosine; what is centred spreads wider"""
BATCH_SPREAD = (0.54, 0.4)
"""a and b: where a batch is judged together, the student's logits of an image lie a k^b about their mean"""
USUAL_SPREAD, FEW = 0.2, 8
"""the spread of cosines that is taken for granted, and how many images have to speak against it"""
API_SCALE = 8.0
"""the APIs' logits are 8 k^(1/4) cosine"""
STUDENT_SHARE = 0.25
"""how much the student's logits count once an API has answered"""


def api_weight(probs: Tensor, labels: Tensor, *, mirrored: bool = False) -> float:
    """How much an API tells about the classes, from its answers (n, K) to views of the support set; 0 or more.

        w = H^2 (own - other) / (1 - own)

    H is the entropy of the mean answer in nats; own and other are the mean cosines of answers to two views of one class
    and of two classes. Every class needs two views. An API whose answers do not depend on the image, or are random, has
    no weight.

    `mirrored` says that two views of a class are an image and its mirror image. They tell how steady an API is, not how
    alike it finds two images of a class, so that classes which lie apart count more:

        w = H^2 (own - other)^4 I^2 / (1 - own)^(1/2)

    I is the mutual information of image and answer: H less the mean entropy of an answer.
    """
    directions = answer_directions(probs)
    cosines = directions @ directions.T
    same = labels[:, None] == labels
    pairs = same & ~torch.eye(len(labels), dtype=torch.bool)
    own, other = cosines[pairs].mean(), cosines[~same].mean()
    apart, spread = (own - other).clamp_min(0), (1 - own).clamp_min(1e-3)
    entropy = _entropy(probs.mean(0))
    if not mirrored:
        return float(entropy**2 * apart / spread)
    information = (entropy - _entropy(probs).mean()).clamp_min(0)
    return float(entropy**2 * apart**4 * information**2 / spread.sqrt())


def _entropy(probs: Tensor) -> Tensor:
    """In nats, of distributions (..., K)."""
    return -(probs * probs.clamp_min(1e-12).log()).sum(-1)


def class_sums(directions: Tensor, labels: Tensor, way: int) -> Tensor:
    """The sum (W, d) of the directions (n, d) of each class."""
    return F.one_hot(labels, way).to(directions.dtype).T @ directions


def class_cosines(directions: Tensor, sums: Tensor, belief: Tensor | None = None) -> Tensor:
    """Cosines (n, W) of directions (n, d) with class sums (W, d).

    With `belief` (n, W) the images themselves belong to the classes by that much, rows of zeros not at all, and are
    added to the sums; but no image is part of a sum that it is compared with itself.
    """
    if belief is None:
        return directions @ F.normalize(sums, dim=1).T
    sums = sums + belief.T @ directions
    square = (directions * directions).sum(1, keepdim=True)
    dots = directions @ sums.T
    norms: Tensor = (sums * sums).sum(1) - 2 * belief * dots + belief**2 * square
    return (dots - belief * square) / norms.clamp_min(1e-9).sqrt()


def student_scale(shots: float, centre: Centre) -> float:
    """What makes logits of cosines with class means of `shots` images each."""
    scale, power = STUDENT_SCALES[centre]
    return float(scale * shots**power)


def batch_scale(cosines: Tensor, shots: float) -> float:
    """What makes logits of a batch's cosines (n, W) with class means, measured from its own mean.

        scale = 0.54 k^0.4 / spread,    spread^2 = the mean square of an image's cosines about their own mean

    How wide cosines spread follows from the network: those of 1,024 features less than those of 128. How wide logits
    should spread follows from the shots alone. A few images are joined by as many usual ones.
    """
    scale, power = BATCH_SPREAD
    squares = (cosines - cosines.mean(1, keepdim=True)).square().mean(1)
    spread = (float(squares.sum()) + FEW * USUAL_SPREAD**2) / (len(cosines) + FEW)
    return float(scale * shots**power / spread**0.5)


def measured_from_mean(directions: Tensor, sums: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Directions (n, d), and class sums (W, d) of `counts` (W,) others, from the mean of them all.

    What all these images have in common tells no class from another; without it, the rest tells more.
    """
    mean = (sums.sum(0) + directions.sum(0)) / (counts.sum() + len(directions))
    moved = directions - mean
    lengths = moved.norm(dim=1, keepdim=True)
    # The images of the sums are not at hand one by one, so they get the mean length of the others.
    return F.normalize(moved, dim=1), (sums - counts.unsqueeze(1) * mean) / lengths.mean().clamp_min(1e-6)


def fused_logits(student: Tensor, cosines: Tensor, asked: Tensor, weights: Tensor, shots: float) -> Tensor:
    """Logits (n, W) from the student's (n, W) and the cosines (n, m, W) of the APIs' answers.

    `asked` (n, m) says which API has answered about which image, `weights` (m,) how much each tells. An image that no
    API has answered about keeps the student's logits; else a quarter of these counts beside 8 k^(1/4) mean cosine.
    """
    share = asked.to(cosines.dtype) * weights
    total = share.sum(1, keepdim=True)
    mean = (share.unsqueeze(-1) * cosines).sum(1) / total.clamp_min(1e-9)
    return torch.where(total > 0, STUDENT_SHARE * student + API_SCALE * math.sqrt(math.sqrt(shots)) * mean, student)


def worth_asking(probabilities: Tensor, asked: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """What the next query about each image is worth (n,), from 0 to 1, and the API (n,) that it should go to.

        worth = (1 - largest probability) * w_next / (w_next + sum of w asked)

    The next API is the one that tells most of those not yet asked. For an image that none was asked about, the worth is
    the chance that the prediction is wrong, by the classifier's own word.
    """
    left = torch.where(asked, -1.0, weights.expand_as(asked))
    best, api = left.max(1)
    spoken = (asked * weights).sum(1)
    worth = (1 - probabilities.max(1).values) * best.clamp_min(0) / (spoken + best.clamp_min(1e-9))
    return worth.where(best > 0, 0.0), api
