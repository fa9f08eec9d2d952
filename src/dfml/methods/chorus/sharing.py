"""Who is asked about which picture: where there are many APIs, not everybody about everything."""

from collections.abc import Sequence
from statistics import median_low

import torch
from torch import Tensor

from dfml.nets.answer_directions import MANY_CLASSES
from dfml.rng import stream

LISTENERS, LISTENERS_OF_MANY_CLASSES = 5, 2
"""APIs that should hear of each picture: what more of them would say of it is worth less than another picture. Where
most have many classes one answer tells more; two, that it can be seen whether they mean the same by their names"""
WIDEST = 4
"""pictures for each query, at most"""
OFTEN = 50
"""times that a picture has to be learned from: in a short training, more pictures are of no use"""
ROOM = 2**26
"""numbers that answers may fill, those that were not asked for among them"""


def spread_for(queries: int, ways: Sequence[int], *, learned: int | None = None) -> int:
    """Pictures for each query, where APIs of so many classes are asked `queries` times each.

    The student learns from `learned` pictures in all, the same ones again and again; None: from as many as it takes.
    """
    listeners = LISTENERS_OF_MANY_CLASSES if median_low(ways) > MANY_CLASSES else LISTENERS
    bounds = [WIDEST, len(ways) // listeners, ROOM // (queries * len(ways) * max(ways))]
    if learned is not None:
        bounds.append(learned // (OFTEN * queries))
    return max(1, min(bounds))


def shared_out(counts: Sequence[int], spread: int, *, seed: int) -> list[Tensor]:
    """The rows of the pictures that each API is asked about: `counts[i]` of them for API i.

    Pictures come in rounds of `spread`, and an API is asked about one of every round, of which it takes part in as
    many as it has queries. Each round deals the APIs out anew, evenly, from a stream of its own: a longer run begins
    with the same pictures for the same APIs.
    """
    if spread == 1 or not any(counts):
        return [torch.arange(count) for count in counts]
    dealt = [torch.randperm(len(counts), generator=stream(seed, "round", r)) % spread for r in range(max(counts))]
    pictures = torch.stack(dealt) + spread * torch.arange(len(dealt)).unsqueeze(1)  # (rounds, APIs)
    return [pictures[:count, column] for column, count in enumerate(counts)]
