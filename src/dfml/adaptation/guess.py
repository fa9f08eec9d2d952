"""What the student says of images by itself, before any API is asked about them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dfml.adaptation.answer_features import Centre, batch_scale, class_cosines, measured_from_mean, student_scale
from dfml.adaptation.student import FrozenClassifier


@dataclass(frozen=True)
class Guess:
    """What the student says of n images by itself."""

    logits: Tensor  # (n, W)
    directions: Tensor | None = None  # (n, d), where it compares directions with class means
    sums: Tensor | None = None  # (W, d) of the support set's directions
    counts: Tensor | None = None  # (W,): how many images these are
    centre: Centre = "nothing"

    def in_company(self, shots: float) -> "Guess":
        """The same about a batch of images that are judged together: what they have in common tells nothing."""
        if self.directions is None or self.sums is None or self.counts is None or self.centre != "nothing":
            return self
        directions, sums = measured_from_mean(self.directions, self.sums, self.counts)
        cosines = class_cosines(directions, sums)
        return Guess(batch_scale(cosines, shots) * cosines, directions, sums, self.counts, "batch")

    def after(self, belief: Tensor, asked: Tensor, shots: float) -> Tensor:
        """Its logits (n, W) once the images `asked` (n,) have joined the classes they seem to belong to."""
        if self.directions is None or self.sums is None:
            return self.logits
        more = float(asked.sum()) / self.logits.shape[1]
        cosines = class_cosines(self.directions, self.sums, belief * asked.unsqueeze(1))
        shots += more
        return cosines * (batch_scale(cosines, shots) if self.centre == "batch" else student_scale(shots, self.centre))


def guess_of(student: FrozenClassifier, x: Tensor) -> Guess:
    """About images x (n, c, h, w) as they were given, each by itself."""
    with torch.inference_mode():
        logits = [student(inputs).cpu() for inputs in student.inputs(x)]
    return Guess(torch.cat([torch.zeros(0, student.spec.way), *logits]))


def comparing_guess(student: FrozenClassifier, x: Tensor, labels: Tensor | None) -> Guess:
    """The same with all that answers can be joined to; `labels` (m,) of the support set, where they are kept."""
    if student.sums is None or len(x) == 0:
        return guess_of(student, x)
    with torch.inference_mode():
        told = [(student(inputs).cpu(), student.directions(inputs).cpu()) for inputs in student.inputs(x)]
    logits, directions = (torch.cat(parts) for parts in zip(*told, strict=True))
    counts = None if labels is None else torch.bincount(labels, minlength=student.spec.way)
    centre: Centre = "nothing" if student.expected is None else "learning"
    return Guess(logits, directions, student.sums.cpu(), counts, centre)
