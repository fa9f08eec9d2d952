"""Zoo training against a plain eager loop: the same network, images, updates and cores."""

import json
import subprocess
import sys
import time

IMAGES, EPOCHS, APIS = 2400, 2, 4
GOAL = 1.5

PLAIN = f"""
import json, time, torch
from torch import nn
import torch.nn.functional as F

def conv4():
    layers, channels = [], 3
    for _ in range(4):
        layers += [nn.Conv2d(channels, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
        channels = 32
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 5))

images, labels = torch.randn({IMAGES}, 3, 32, 32), torch.randint(5, ({IMAGES},))
start = time.perf_counter()
for api in range({APIS}):
    net = conv4()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range({EPOCHS}):
        for rows in torch.randperm({IMAGES}).split(128):
            optimiser.zero_grad()
            F.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimiser.step()
print(json.dumps(time.perf_counter() - start))
"""


def train_one(seed: int, report: object) -> float:
    """What a zoo worker does, without reading data or writing files."""
    import torch

    from dfml.nets import NetSpec
    from dfml.zoo.training import TrainConfig, train

    images, labels = torch.randn(IMAGES, 3, 32, 32), torch.randint(5, (IMAGES,))
    start = time.perf_counter()
    train(NetSpec(), images, labels, TrainConfig(epochs=EPOCHS), seed=seed, on_epoch=lambda epoch: None)
    return time.perf_counter() - start


def ours() -> float:
    """Seconds for all APIs on all cores; starting the workers, once for a whole zoo, is not counted."""
    from dfml.engine.pool import Finished, side_by_side
    from dfml.runtime import cores

    workers = min(cores(), APIS)
    events = side_by_side(train_one, list(range(APIS)), workers=workers)
    return sum(event.result for event in events if isinstance(event, Finished)) / workers


def plain() -> float:
    """Seconds for all APIs one after another in a process of its own, with torch's default threads and allocator."""
    result = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    return float(json.loads(result.stdout))


def run() -> dict[str, object]:
    """Both sides twice, in turns; the better of each."""
    pairs = [(ours(), plain()) for _ in range(2)]
    mine, theirs = (min(side) for side in zip(*pairs, strict=True))
    images = IMAGES * EPOCHS * APIS
    ratio = theirs / mine
    return {
        "name": "zoo training",
        "ratio": round(ratio, 2),
        "goal": f">= {GOAL}",
        "met": ratio >= GOAL,
        "images_per_second": {"ours": round(images / mine), "plain eager loop": round(images / theirs)},
        "line": f"zoo training does {ratio:.1f} times the images per second of a plain eager loop on the same cores",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
