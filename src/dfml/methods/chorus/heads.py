"""The last layer of a student: what each class looks like, and how each API speaks of it."""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from dfml.methods.chorus.vocabulary import Vocabulary
from dfml.nets.expected_answers import NOWHERE
from dfml.nets.functional import Params

EPSILON = 1e-8  # of torch.optim.Adam


class SparseAdam:
    """Parameters of many items, trained by Adam, of which an update touches only some.

    Every item, a row of each of `values`, has moments and a number of updates of its own, so that an update costs as
    much as there are items in it, however many there are besides. Where all are in every update, this is Adam as it
    always is.
    """

    def __init__(self, values: Params) -> None:
        self.values = values
        self.first, self.second = ({name: torch.zeros_like(v) for name, v in values.items()} for _ in range(2))
        some = next(iter(values.values()))
        self.updates = torch.zeros(len(some), dtype=torch.long, device=some.device)

    def of(self, items: Tensor) -> Params:
        """Copies of the parameters of some items, to compute a gradient for."""
        return {name: value[items].requires_grad_() for name, value in self.values.items()}

    @torch.no_grad()
    def update(self, items: Tensor, gradient: Params, *, lr: float, betas: tuple[float, float]) -> None:
        """One step of Adam for the parameters of `items`, in ascending order."""
        # Indices copy, a slice does not: most often all items are in an update.
        at = slice(None) if len(items) == len(self.updates) else items
        self.updates[at] += 1
        count = self.updates[at].double()
        rate, correction = lr / (1 - betas[0] ** count), (1 - betas[1] ** count).sqrt()
        for name in self.values.keys() & gradient.keys():
            grad = gradient[name]
            each = (-1, *[1] * (grad.dim() - 1))
            first = self.first[name][at].lerp(grad, 1 - betas[0])
            second = (self.second[name][at] * betas[1]).addcmul_(grad, grad, value=1 - betas[1])
            spread = (second.sqrt() / correction.to(grad.dtype).view(each)).add_(EPSILON)
            self.values[name][at] -= rate.to(grad.dtype).view(each) * first / spread
            self.first[name][at], self.second[name][at] = first, second

    def state(self) -> dict[str, Tensor]:
        """Everything that `update` changes, under names."""
        parts = {"value": self.values, "first": self.first, "second": self.second}
        named = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        return named | {"updates": self.updates}


class AnswerHeads:
    """What m APIs of at most k classes are expected to answer about an image of features f (d,):

        softmax over the classes c of API a of   loudness_a * (weight_c f + bias_c) + leaning_ac

    A class that several APIs know by one name (`Vocabulary`) is learned from all of them: it looks the same to each.
    How sure an API is, and what it says where it knows nothing, is its own. `loudness` is kept as its logarithm.
    """

    def __init__(self, vocabulary: Vocabulary, *, features: int, rng: Generator, device: torch.device) -> None:
        apis, way = vocabulary.rows.shape
        weight = (torch.rand(vocabulary.size, features, generator=rng) * 2 - 1) * features**-0.5
        self.vocabulary, self.rows = vocabulary, vocabulary.rows.to(device)
        self.classes = SparseAdam({"weight": weight.to(device), "bias": torch.zeros(vocabulary.size, device=device)})
        self.manner = SparseAdam(
            {"loudness": torch.zeros(apis, device=device), "leaning": torch.zeros(apis, way, device=device)}
        )
        self.present = (torch.arange(way) < torch.tensor(vocabulary.ways)[:, None]).to(device)
        self.absent = torch.where(self.present, 0.0, NOWHERE)

    @property
    def values(self) -> Params:
        """All parameters."""
        return self.classes.values | self.manner.values

    def of(self, apis: Tensor) -> Params:
        """Copies of the parameters that some APIs need, to compute a gradient for."""
        return self.classes.of(self._classes(apis)[0]) | self.manner.of(apis)

    def logits(self, features: Tensor, layers: Params, apis: Tensor) -> Tensor:
        """What `layers`, those of `apis`, make of features (n, d): (n, apis, k)."""
        shown = features @ layers["weight"].T + layers["bias"]
        heard = shown[:, self._classes(apis)[1]] * layers["loudness"].exp().unsqueeze(1)
        return heard + layers["leaning"] + self.absent[apis]

    def update(self, apis: Tensor, gradient: Params, *, lr: float, betas: tuple[float, float]) -> None:
        """One step of Adam for the parameters that `apis` need."""
        self.classes.update(self._classes(apis)[0], gradient, lr=lr, betas=betas)
        self.manner.update(apis, gradient, lr=lr, betas=betas)

    @torch.no_grad()
    def circles(self, apis: Tensor) -> tuple[Tensor, Tensor]:
        """One layer for each circle of `apis`: weights (circles, k, d) and biases (circles, k).

        It weighs all classes that its APIs know against each other, where each API knows a few of them, with the
        mean of their loudness and leanings. Of an API alone it is that API's own layer.
        """
        rows, ways, device = self.vocabulary.rows, self.vocabulary.ways, self.rows.device
        values = {name: value.cpu() for name, value in self.values.items()}  # once: there is little to compute
        layers = []
        for members in self.vocabulary.circles(apis.tolist()):
            known = torch.cat([rows[api, : ways[api]] for api in members])
            leanings = [values["leaning"][api, : ways[api]] / values["loudness"][api].exp() for api in members]
            classes, column = known.unique(return_inverse=True)
            leaning = torch.zeros(len(classes)).index_add(0, column, torch.cat([one - one.mean() for one in leanings]))
            bias = values["bias"][classes] + leaning / column.bincount()
            loudness = values["loudness"][members].exp().mean()
            layers.append((values["weight"][classes] * loudness, bias * loudness))
        weights, biases = zip(*layers, strict=True)
        return _padded(weights, 0.0).to(device), _padded(biases, NOWHERE).to(device)

    def state(self) -> dict[str, Tensor]:
        """Everything that `update` changes, under names."""
        parts = {"classes": self.classes, "manner": self.manner}
        return {f"{part}.{name}": value for part, adam in parts.items() for name, value in adam.state().items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for name, value in self.state().items():
            value.copy_(state[name])

    def _classes(self, apis: Tensor) -> tuple[Tensor, Tensor]:
        """The classes that `apis` know, and which of these stands in each of their columns (apis, k)."""
        classes, column = self.rows[apis].unique(return_inverse=True)
        return classes, column


def _padded(parts: Sequence[Tensor], value: float) -> Tensor:
    """Tensors that differ in their first length, in one."""
    return pad_sequence(list(parts), batch_first=True, padding_value=value)
