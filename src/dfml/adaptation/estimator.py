"""scikit-learn's conventions for an object with `fit`, kept without importing scikit-learn."""

import inspect
from typing import Any, Self

from dfml.errors import ConfigError


class Estimator:
    """Keeps every argument of its constructor under that argument's name, as `sklearn.base.clone` wants it.

    What `fit` finds out has names of its own, `_student` among them.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor."""
        names = list(inspect.signature(type(self)).parameters)
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ConfigError(f"unknown parameter {name!r}; known are {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_student")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            message = f"this {type(self).__name__} is not fitted yet; call fit(images, labels) first"
            try:
                from sklearn.exceptions import NotFittedError
            except ImportError:
                raise ConfigError(message) from None
            raise NotFittedError(message)
