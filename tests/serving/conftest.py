"""What the tests of the server share."""

from pathlib import Path

import pytest
from colour_server import serve

__all__ = ["serve"]


@pytest.fixture(scope="session")
def tiny_zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small classifiers of glyphs."""
    from dfml.bench.zoo import ZooConfig, build_zoo

    folder = tmp_path_factory.mktemp("tiny") / "zoo"
    list(build_zoo(folder, ZooConfig(apis=3, way=3, width=4, epochs=1, images_per_class=10), workers=1))
    return folder
