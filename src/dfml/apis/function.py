"""Any Python callable behind the seam: a scikit-learn forest, a client library, a few lines of NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dfml.apis.blackbox import ApiSpec, ask
from dfml.errors import ApiError, BadAnswer, DfmlError


class FunctionApi:
    """`function` maps float32 arrays (n, c, h, w) in [0, 1] to class probabilities (n, k):

    FunctionApi(lambda x: forest.predict_proba(x.reshape(len(x), -1)), spec)
    """

    def __init__(self, function: Callable[[np.ndarray], Any], spec: ApiSpec) -> None:
        self.function, self.spec = function, spec

    def __call__(self, images: Tensor) -> Tensor:
        """Class probabilities (n, k) for images (n, c, h, w) in [0, 1]."""
        return ask(self.spec, images, self._respond)

    def _respond(self, images: Tensor) -> Tensor:
        pixels = images.cpu().numpy().copy()  # a copy, so that a function that works in place spoils nothing of ours
        try:
            answer = self.function(pixels)
        except DfmlError:
            raise
        except Exception as error:
            raise ApiError(f"{self.spec.name}: its function failed with {type(error).__name__}: {error}") from error
        try:
            return torch.from_numpy(np.array(answer, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise BadAnswer(
                f"{self.spec.name}: expected {len(images)} answers of {self.spec.way} classes, "
                f"got a {type(answer).__name__} that is no array of numbers"
            ) from error
