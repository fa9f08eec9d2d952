"""What is minimised. Arguments are named by their unit: an API speaks probabilities, our own networks speak logits."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

First = Literal["api", "student"]
"""of whose probabilities a KL is the mean: KL(API || student), or KL(student || API)"""


def distillation_kl(student_logits: Tensor, teacher_probs: Tensor) -> Tensor:
    """KL(teacher || student), mean over the images; zero iff the two agree.

        1/n sum_x sum_j teacher_j(x) * (log teacher_j(x) - log student_j(x))

    Both are (n, k); the result is a scalar. A class the teacher gives exactly 0 adds nothing, so rounded and one-hot
    answers are safe; for one-hot answers this is the cross-entropy.
    """
    return F.kl_div(student_logits.log_softmax(-1), teacher_probs, reduction="batchmean")


def released_divergence(student_logits: Tensor, teacher_probs: Tensor) -> Tensor:
    """What the paper's released code minimises in place of the KL: probabilities where log-probabilities belong.

        1/(n k) sum teacher_j(x) * (log teacher_j(x) - student_j(x))

    Up to a constant the negative dot product of the two, so its optimum is one-hot, whatever the teacher says.
    """
    return F.kl_div(student_logits.softmax(-1), teacher_probs, reduction="none").mean()


def target_nll(probs: Tensor, targets: Tensor, *, floor: float = 1e-6) -> Tensor:
    """-log p of the target class of each image: `probs` (n, k), `targets` (n,) -> (n,).

    Below `floor` the curve goes on as its tangent there, so a probability that was rounded to zero costs
    1 - log(floor) instead of infinity, and more probability is always better.
    """
    p = probs.gather(1, targets[:, None]).squeeze(1)
    held = p.clamp_min(floor)
    return (held - p) / floor - held.log()


def boundary(
    probs: Tensor,
    targets: Tensor,
    student_logits: Tensor,
    agree: Tensor,
    *,
    weight: float = 1.0,
    first: First = "api",
    floor: float = 1e-6,
) -> Tensor:
    """The boundary objective of each image (eq:adaptive): images the API is sure of and the student is not.

        -log A(x)_y - weight * agree(x) * KL(A(x) || F(x))

    `probs` (n, k) are the API's at the probe and `student_logits` (n, k) the student's at the same probe, while `agree`
    (n,) bool, "API and student name the same class", is held at the image the probes surround: an indicator that could
    flip from probe to probe would turn a finite difference into a spike. The API comes first, as in `distillation_kl`,
    or, by the letter of the equation, the student. Finite whatever zeros either side holds.
    """
    if first == "api":
        apart = divergence(student_logits, probs)
    else:
        apart = divergence(probs.clamp_min(floor).log(), student_logits.softmax(-1))
    nll = target_nll(probs, targets, floor=floor)
    return nll - weight * torch.where(agree, apart, torch.zeros_like(apart))


def divergence(student_logits: Tensor, teacher_probs: Tensor) -> Tensor:
    """KL(teacher || student) of each image: the terms (n,) whose mean is `distillation_kl`."""
    return F.kl_div(student_logits.log_softmax(-1), teacher_probs, reduction="none").sum(1)


def recovered_logits(probs: Tensor, *, floor: float = 1e-6) -> Tensor:
    """Logits (n, k) that a softmax turns into `probs` (n, k), with mean 0: what can be known of an API's own.

    A probability below `floor` counts as that much, so that one that was rounded to zero has a logarithm.
    """
    logs = probs.clamp_min(floor).log()
    return logs - logs.mean(1, keepdim=True)


def logit_distance(student_logits: Tensor, teacher_probs: Tensor) -> Tensor:
    """How far a student's logits are from the teacher's recovered ones, mean over classes: (n, k), (n, k) -> (n,)."""
    return (student_logits - recovered_logits(teacher_probs)).abs().mean(1)
