"""What Ray says when something fails, as we say it."""

from ray.exceptions import RayError, RaySystemError, RayTaskError

import dfml
from dfml.errors import ConfigError


def first_line(error: BaseException) -> str:
    """The first line of what Ray says, which says enough."""
    return str(error).strip().split("\n")[0].rstrip(".")


def cause_of(error: RayTaskError) -> BaseException:
    """What was raised on a node; a sentence, where dfml could not even begin there."""
    return _cannot_begin(error) if isinstance(error.cause, RaySystemError) else error.cause


def check_begun(error: RayError) -> None:
    """`ConfigError` if an actor died because it could not be made, which will not pass."""
    if getattr(error, "actor_init_failed", False):
        raise _cannot_begin(error) from None


def _cannot_begin(error: RayError) -> ConfigError:
    reason = str(error).strip().split("\n")[-1]
    return ConfigError(
        f"a Ray node cannot run dfml ({reason}); install dfml {dfml.__version__} on all machines of the cluster"
    )
