"""Real images. No other room reads any; recovery, meta-learning and methods never import this one."""

from pathlib import Path

from dfml.data import cifar_fs, cub, folder, mini_imagenet
from dfml.data.cache import OnDecoded, cached
from dfml.data.decode import Fit, decode
from dfml.data.episodes import episodes, sample_episode
from dfml.data.glyphs import Glyphs
from dfml.data.image_set import ImageSet, channel_statistics
from dfml.data.layout import PARTS
from dfml.data.source import ImageFiles
from dfml.errors import ConfigError, nearest

DATASETS = ("glyphs", "cifar-fs", "mini-imagenet", "cub", "folder")
MULTIPLE = ("cifar-fs", "mini-imagenet", "cub")
"""the three of scenario mh"""

_SIZE = {"glyphs": 32, "cifar-fs": 32, "mini-imagenet": 84, "cub": 84, "folder": 84}
_LAYOUT = {
    "cifar-fs": cifar_fs.LAYOUT,
    "mini-imagenet": mini_imagenet.LAYOUT,
    "cub": cub.LAYOUT,
    "folder": folder.LAYOUT,
}


def open_dataset(
    name: str,
    part: str,
    *,
    data: Path | None = None,
    size: int | None = None,
    seed: int = 0,
    on_progress: OnDecoded | None = None,
) -> ImageSet:
    """One part (train, val, test) of a data set, decoded to `size` x `size` on first use and cached from then on.

    `data` is the folder of the public download; only the embedded `glyphs` need none. `seed` decides how glyphs are
    drawn and which classes of a `folder` without a split file go where: keep it the same for all parts, or classes
    seen in training come back in the test.
    """
    if name not in DATASETS:
        raise ConfigError(f"unknown data set {name!r}; {nearest(name, DATASETS)}")
    if part not in PARTS:
        raise ConfigError(f"unknown part {part!r} of {name}; choose one of {', '.join(PARTS)}")
    size = _SIZE[name] if size is None else size
    if size < 8:
        raise ConfigError(f"{name}: images of {size}x{size} show nothing; ask for a size of at least 8")
    if name == "glyphs":
        return cached(Glyphs(part=part, size=size, seed=seed), on_progress=on_progress)
    if data is None:
        raise ConfigError(f"{name} needs a data folder; pass its DIR (--data DIR), laid out as {_LAYOUT[name]}")
    data = Path(data)
    if name == "folder":
        files = folder.find(data, part, seed=seed)
    else:
        find = {"cifar-fs": cifar_fs.find, "mini-imagenet": mini_imagenet.find, "cub": cub.find}[name]
        files = find(data, part)
    # The standard sets are squeezed whole, as the literature does; strangers' photographs keep their proportions.
    fit: Fit = "crop" if name == "folder" else "stretch"
    return cached(ImageFiles(name=name, part=part, files=files, size=size, fit=fit), on_progress=on_progress)


__all__ = [
    "DATASETS",
    "PARTS",
    "ImageSet",
    "channel_statistics",
    "decode",
    "episodes",
    "open_dataset",
    "sample_episode",
]
