"""An album's classes as folders of pictures, as `dfml adapt --support` reads them."""

import re
import shutil
import tempfile
from pathlib import Path
from urllib.parse import unquote

from dfml.data.layout import class_folders, images_in
from dfml.errors import DataError
from dfml.play.album import Album, View

FOLDER = "pictures"
"""in a classifier's folder"""


def keep(view: View, classifier: Path) -> None:
    """Write every picture that teaches, as it came, and leave none of an earlier time."""
    classifier.mkdir(parents=True, exist_ok=True)
    target = classifier / FOLDER
    with tempfile.TemporaryDirectory(dir=classifier, prefix=".pictures-") as place:
        for order, (picture, name) in enumerate(zip(view.examples, view.named_labels, strict=True)):
            folder = Path(place) / "new" / _as_folder(name)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(picture.file, folder / f"{order:04d}{picture.suffix}")
        if target.exists():
            target.rename(Path(place) / "old")
        (Path(place) / "new").rename(target)


def take_up(album: Album, folder: Path) -> list[str]:
    """Fill `album` from class folders; why some pictures could not be read."""
    problems = []
    for name in class_folders(folder):
        into = album.add_class(_as_name(name))
        for file in images_in(folder / name):
            number = album.next_number()
            shutil.copyfile(file, album.folder / str(number))
            try:
                album.add(album.read(number, file.name), into)
            except DataError as error:
                problems.append(str(error))
    return problems


def _as_folder(name: str) -> str:
    """A class's name as one that any file system takes, and no reader passes over: the rest is written as %XX."""
    return re.sub(r'[/\\%:*?"<>|]|^[._ ]|[. ]$', lambda found: f"%{ord(found[0]):02X}", name)


def _as_name(folder: str) -> str:
    return unquote(folder)
