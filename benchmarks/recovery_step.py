"""One recovery step at the paper's setting: ours against a straightforward eager transcription of eq:estimation.

150 images of 32x32, q = 100 directions, a Conv4-32 API, a generator of 64 filters, Adam: 15,150 forwards of the API and
one forward and backward of the generator. All take turns, and the median of what one step takes of another counts. The
transcription runs with the allocator as it is, with ours (`dfml.runtime.keep_freed_memory`), and with the API behind
onnxruntime as ours has it.
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from benchmarks.spread import ratios, spread
from benchmarks.turns import Contender, Step, Turn, entered, matmul_gflops
from torch.utils.flop_counter import FlopCounterMode

from dfml.apis.blackbox import ApiSpec, BlackBox
from dfml.apis.local.module import ModuleApi
from dfml.apis.local.onnx import OnnxApi
from dfml.images.generator import Generator
from dfml.nets import NetSpec
from dfml.nets.export import export_onnx
from dfml.recovery.inversion import RecoveryConfig, invert
from dfml.rng import stream

GOAL = 1 / 3
PAPER = RecoveryConfig()
WAY = 5
IMAGES = PAPER.images_per_class * WAY
SPEC = ApiSpec(name="conv4", classes=tuple("abcde"), image=(3, 32, 32))


def conv4() -> torch.nn.Module:
    return NetSpec(way=WAY).build(rng=stream(0, "api")).eval()


def behind_onnxruntime(cores: int) -> BlackBox:
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(conv4(), Path(folder) / "conv4.onnx", name=SPEC.name, classes=SPEC.classes, image=SPEC.image)
        api = OnnxApi(Path(folder) / "conv4.onnx", SPEC, threads=cores)
        api(torch.rand(1, *SPEC.image))  # opens the file
    return api


def ours(cores: int, turn: Turn) -> None:
    config = RecoveryConfig(steps=1_000_000)
    invert(behind_onnxruntime(cores), config, rng=stream(0, "recovery"), on_step=lambda _, value, *__: turn(value))


def transcription(api: BlackBox, turn: Turn) -> None:
    """eq:estimation as one writes it down: a direction, a query, a term of the sum."""
    rng, d, mu, q = stream(0, "recovery"), 3 * 32 * 32, PAPER.radius, PAPER.directions
    y = torch.arange(WAY).repeat_interleave(PAPER.images_per_class)
    generator = Generator(rng=rng)
    z = torch.randn(IMAGES, 256, generator=rng).requires_grad_()
    adam = torch.optim.Adam([z, *generator.parameters()], lr=PAPER.lr, betas=PAPER.betas)
    best = torch.full((IMAGES,), torch.inf)

    def loss(images: torch.Tensor) -> torch.Tensor:
        return -api(images.clamp(0, 1)).gather(1, y[:, None]).squeeze(1).log()

    while True:
        images = generator(z)
        x = images.detach()
        base = loss(x)
        gradient = torch.zeros_like(x)
        for _ in range(q):
            u = torch.randn(x.shape, generator=rng)
            u = u / u.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            gradient = gradient + d / mu * (loss(x + mu * u) - base).view(-1, 1, 1, 1) * u / q
        adam.zero_grad()
        images.backward(gradient / IMAGES)
        adam.step()
        best = torch.minimum(best, base)
        turn(best.mean().item())


CONTENDERS: dict[str, Contender] = {
    "ours": ours,
    "transcription": lambda cores, turn: transcription(ModuleApi(conv4(), SPEC), turn),
    "transcription on onnxruntime": lambda cores, turn: transcription(behind_onnxruntime(cores), turn),
}


def gflop() -> float:
    """The arithmetic of one step, in 10^9 multiplications and additions: all forwards, and the generator's backward."""
    with FlopCounterMode(display=False) as api, torch.no_grad():
        conv4()(torch.rand(1, *SPEC.image))
    with FlopCounterMode(display=False) as generator:
        Generator(rng=stream(0))(torch.rand(2, 256).requires_grad_()).sum().backward()
    per_image = api.get_total_flops() * (PAPER.directions + 1) + generator.get_total_flops() / 2
    return IMAGES * per_image / 1e9


def run(*, rounds: int = 5, cores: int = 2) -> dict[str, Any]:
    """Seconds a step of everybody, the ratios, and the distance from the arithmetic limit."""
    peak = 0.0
    lineup = {
        "ours": ("ours", True),
        "transcription": ("transcription", False),
        "transcription, tuned allocator": ("transcription", True),
        "transcription on onnxruntime, tuned allocator": ("transcription on onnxruntime", True),
    }
    times: dict[str, list[Step]] = {label: [] for label in lineup}
    with ExitStack() as stack:
        steps = {
            label: stack.enter_context(entered("recovery_step", name, cores=cores, tuned=tuned))
            for label, (name, tuned) in lineup.items()
        }
        values = [step().value for step in steps.values()]  # the first step warms up; all draw the same directions
        for _ in range(rounds):
            peak = max(peak, matmul_gflops(cores))
            for label, step in steps.items():
                times[label].append(step())
                values.append(times[label][-1].value)
        first, second = values[: len(lineup)], values[len(lineup) : 2 * len(lineup)]
        if max(first) - min(first) > 1e-4 or max(second) - min(second) > 1e-2:
            raise RuntimeError(f"the contenders do not compute the same thing: objectives {first}, then {second}")
    seconds = {label: spread([step.seconds for step in rounds]) for label, rounds in times.items()}
    work = {label: spread([step.processor_seconds for step in rounds]) for label, rounds in times.items()}
    found = {label: ratios(times["ours"], rounds) for label, rounds in times.items() if label != "ours"}
    limit = gflop() / peak
    mine, ratio = seconds["ours"].median, round(found["transcription"][1].median, 3)
    return {
        "name": "recovery step",
        "goal": round(GOAL, 3),
        "ratio": ratio,
        "ratios": {label: by_clock.rounded(3) for label, (_, by_clock) in found.items()},
        "ratios by processor time": {label: by_work.rounded(3) for label, (by_work, _) in found.items()},
        "met": ratio <= GOAL,
        "seconds": {label: value.rounded(3) for label, value in seconds.items()},
        "processor_seconds": {label: value.rounded(3) for label, value in work.items()},
        "gflop": round(gflop(), 1),
        "matmul_gflops": round(peak, 1),
        "limit_seconds": round(limit, 3),
        "times_the_limit": round(mine / limit, 2),
        "line": f"a recovery step of {IMAGES} images and {PAPER.directions} directions takes {mine:.2f} s on {cores} "
        f"core{'s' * (cores > 1)}: {found['transcription'][1].told('.2f')} of an eager transcription "
        f"(goal: {GOAL:.2f}); {mine / limit:.1f} times its arithmetic at the speed of a matrix product",
    }


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
