"""What a student sees and what it expects its teachers to answer: features that mean something."""

from collections.abc import Mapping, Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dfml.nets.answer_directions import answer_directions
from dfml.nets.sight import Sight

NOWHERE = -1e4
"""the logit of a class that an API does not have"""
ENOUGH, MOST = 128, 9 / 4
"""free answers that weigh as much as the features, and the most that answers may weigh; both of r^2"""


class ExpectedAnswers(nn.Module):
    """What a student was distilled with, one linear layer an API, as an embedding of its features f and other `looks`:

        expected(f, ...) = [ sight(f, ...),  r (s - mean) / |s - mean| ],   s = sqrt(softmax(weight f + bias))

    where `sight` is what the student sees by itself, and the softmax is over each API's classes; APIs that share
    classes are as one that knows all of theirs. `mean` is s averaged over the images of learning, so that what all have
    in common does not count. A class that an API lacks has a bias so low that s is zero. A student that was taught the
    directions of answers, for which `directional` stands, has s = the direction of softmax(weight f + bias) instead
    (`answer_directions`).

    Both halves are needed: the answers of a hundred APIs say more than the features, those of ten say less, and of
    1,000 classes a student foresees little. `answer_weight` is r, see `weight_of_answers`.

    Where nothing but f is given, as in the field's protocol, and in files from before there was a `sight`, the first
    half is (f - centre) / |f - centre|. Files from before there was a rule for r keep the embedding they were made
    with, too: of the probabilities themselves, with r^2 the number of free answers (one less than an API has classes)
    divided by the number of features.
    """

    TENSORS = ("weight", "bias", "centre", "mean", "answer_weight", "directional")
    weight: Tensor  # (m * k, d)
    bias: Tensor  # (m * k,)
    centre: Tensor  # (d,)
    mean: Tensor  # (m, k)
    answer_weight: Tensor | None  # ()
    directional: Tensor | None  # bool (m, k): which columns are classes

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        centre: Tensor,
        mean: Tensor,
        answer_weight: Tensor | None = None,
        directional: Tensor | None = None,
        sight: Sight | None = None,
    ) -> None:
        super().__init__()
        tensors = (weight, bias, centre, mean, answer_weight, directional)
        for name, tensor in zip(self.TENSORS, tensors, strict=True):
            self.register_buffer(name, tensor)
        self.sight = sight
        free = int((mean > 0).sum()) - len(mean)
        self._before = (free / len(centre)) ** 0.5

    @property
    def weighed(self) -> bool:
        """Whether r follows what the student foresees; else it counts answers, which 1,000 classes are too many for."""
        return self.answer_weight is not None

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Self:
        """From what `state_dict` gave."""
        own = {name: tensor for name, tensor in state.items() if not name.startswith("sight.")}
        of_sight = {name.removeprefix("sight."): tensor for name, tensor in state.items() if name not in own}
        return cls(**own, sight=Sight.from_state(of_sight) if of_sight else None)

    def on(self, device: torch.device | str) -> Self:
        """The same there; unlike `to`, which would move these."""
        return self.from_state({name: tensor.to(device) for name, tensor in self.state_dict().items()})

    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        """The `looks` of the student, its features (n, d) first -> (n, all of them and m * k answers)."""
        features, *more = seen
        answers = F.normalize((self._spread(self.answers(features)) - self.mean).flatten(1), dim=1)
        r = self._before if self.answer_weight is None else self.answer_weight
        own = self.sight(seen) if more and self.sight is not None else F.normalize(features - self.centre, dim=1)
        return torch.cat((own, r * answers), 1)

    def answers(self, features: Tensor) -> Tensor:
        """The probabilities (n, m, k) that each API is expected to give."""
        return _answers(features, self.weight, self.bias, self.mean.shape)

    def _spread(self, answers: Tensor) -> Tensor:
        if self.directional is not None:
            return answer_directions(answers, self.directional)
        return answers.sqrt() if self.weighed else answers

    @classmethod
    def centred_on(
        cls,
        weight: Tensor,
        bias: Tensor,
        seen: Sequence[Tensor],
        *,
        apis: int,
        answer_weight: float = 1.0,
        directions: bool = False,
    ) -> Self:
        """The heads of `apis` APIs, centred on the `looks` at some images and the answers expected for them."""
        features, *more = seen
        shape = (apis, len(bias) // apis)
        answers, present = _answers(features, weight, bias, shape), (bias > NOWHERE / 2).view(shape)
        spread = answer_directions(answers, present) if directions else answers.sqrt()
        r = torch.tensor(answer_weight).to(features.device)
        sight = Sight.among(seen, beside=answer_weight) if more else None
        return cls(weight, bias, features.mean(0), spread.mean(0), r, present if directions else None, sight)


def weight_of_answers(gain: Tensor, ways: Tensor, *, directions: bool = False) -> float:
    """r of `ExpectedAnswers`, from the `gain` (m,) of every API that is believed, and its number of classes (m,):

        r^2 = min(1, 2 * mean gain) * min(9 / 4, free answers / 128)

    How many answers there are, times how much of them the student foresees on images it did not learn from; how many
    features stand beside them does not count, for a larger student's answers are better, too. 100 APIs of 5 classes
    come to 1.5, 10 to 0.56. Where `directions` of answers are met, of which a student foresees little, they count at
    most as much as the features: real APIs of 1,000 classes come to about a half.
    """
    if not len(gain):
        return 0.0
    free = float((ways - 1).sum())
    heard = min(1.0, 2 * float(gain.clamp(0, 1).mean()))
    return float((heard * min(1.0 if directions else MOST, free / ENOUGH)) ** 0.5)


def _answers(features: Tensor, weight: Tensor, bias: Tensor, shape: Sequence[int]) -> Tensor:
    return (features @ weight.T + bias).view(-1, *shape).softmax(-1)
