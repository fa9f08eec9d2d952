"""An ONNX file is an API. Here one is exported from PyTorch first; with a file of your own, begin at `apis`.

pip install 'dfml[onnx]'
python examples/onnx_file.py
"""

import numpy as np
import torch
from torch import nn

import dfml

OUT = "run-onnx/"

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 7 * 7, 3), nn.Softmax(dim=1)
).eval()
torch.onnx.export(
    net,
    (torch.zeros(1, 3, 32, 32),),
    "shapes.onnx",
    input_names=["images"],
    output_names=["probabilities"],
    dynamic_axes={"images": {0: "n"}, "probabilities": {0: "n"}},
    dynamo=False,
)

spec = dfml.ApiSpec(name="shapes", classes=("disc", "square", "star"), image=(3, 32, 32))
apis = [dfml.OnnxApi("shapes.onnx", spec)]
init = dfml.learn(apis, OUT, budget=1000, resume=True)

# And back: what was learned, adapted to two new classes, is an ONNX file itself.
rng = np.random.default_rng(0)
dark, bright = 0.4 * rng.random((5, 3, 32, 32)), 0.6 + 0.4 * rng.random((5, 3, 32, 32))
images = np.concatenate([dark, bright]).astype(np.float32)
classifier = init.adapt(images, ["night"] * 5 + ["day"] * 5)
classifier.save("classifier/")
classifier.export_onnx("classifier.onnx")
print(classifier.predict(images).tolist())
