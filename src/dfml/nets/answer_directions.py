"""An answer as a direction: where there are many classes, the many small probabilities say most."""

import torch
import torch.nn.functional as F
from torch import Tensor

RESOLUTION = 1000.0
"""probabilities below 1 / 1000 hardly count"""
MANY_CLASSES = 20
"""above which an answer says more by its direction than by the classes that win"""


def answer_directions(probs: Tensor, present: Tensor | None = None) -> Tensor:
    """Answers (..., k) as directions (..., k): log(1 + 1000 p), less its own mean, of unit length; zero for uniform p.

    `present` (..., k) tells which columns are classes, where others only fill up; those stay zero.
    """
    logs = torch.log1p(RESOLUTION * probs)
    if present is None:
        spread = logs - logs.mean(-1, keepdim=True)
    else:
        classes = present.to(logs.dtype)
        spread = (logs - (logs * classes).sum(-1, keepdim=True) / classes.sum(-1, keepdim=True)) * classes
    return F.normalize(spread, dim=-1, eps=1e-2)  # rounding errors are no direction
