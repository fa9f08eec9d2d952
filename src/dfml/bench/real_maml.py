"""Real-data MAML: the same network meta-trained on the real train classes. The ceiling, for it reads real images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dfml.apis.blackbox import fit_to
from dfml.data import ImageSet, sample_episode
from dfml.episode import Episode, EpisodeSpec
from dfml.hardware import CPU, Hardware
from dfml.initialisation import Initialisation
from dfml.meta.adam import adam
from dfml.meta.replay import ReplayConfig, meta_gradient
from dfml.meta.state import LearnerState
from dfml.methods.meta_model import MetaModelConfig
from dfml.nets.functional import Net
from dfml.rng import stream

KEPT_EVERY = 100
"""meta-steps between two checkpoints"""


@dataclass(frozen=True, kw_only=True)
class RealMamlConfig:
    """The replay of BiDf-MKD, on real tasks."""

    net: MetaModelConfig = MetaModelConfig()
    iterations: int = 60_000
    replay: ReplayConfig = ReplayConfig()


def plan(config: RealMamlConfig, parts: Sequence[ImageSet], *, way: int) -> RealMamlConfig:
    """Fill in the network's shape."""
    channels, size, _ = parts[0].shape
    net = replace(
        config.net, way=config.net.way or way, size=config.net.size or size, channels=config.net.channels or channels
    )
    return replace(config, net=net)


def meta_train(
    config: RealMamlConfig,
    parts: Sequence[ImageSet],
    *,
    seed: int,
    hardware: Hardware = CPU,
    checkpoint: Path | None = None,
    on_step: Callable[[int, float, float], None] = lambda iteration, loss, accuracy: None,
) -> Initialisation:
    """MAML on tasks drawn from `parts` in turn; it goes on where `checkpoint` was kept, to the same bits."""
    net, cfg = Net(config.net.spec, mixed=hardware.mixed), config.replay
    task = EpisodeSpec(way=config.net.way, shot=cfg.shot, query=cfg.query)
    shape = (config.net.channels, config.net.size, config.net.size)
    if checkpoint and checkpoint.exists():
        learner = LearnerState.load(checkpoint, device=hardware.device)
    else:
        learner = LearnerState.fresh(config.net.begin(seed, device=hardware.device), {})

    def draw(number: int) -> Episode:
        episode = sample_episode(parts[number % len(parts)], task, stream(seed, "real task", number))
        fitting = episode._replace(support=fit_to(episode.support, shape), query=fit_to(episode.query, shape))
        return fitting.on(hardware.device)

    for iteration in range(learner.iteration, config.iterations):
        episodes = [draw(iteration * cfg.batch + place) for place in range(cfg.batch)]
        result = meta_gradient(
            net,
            learner.params,
            episodes,
            inner_lr=cfg.inner_lr,
            inner_steps=cfg.inner_steps,
            first_order=cfg.first_order,
        )
        learner.params, learner.adam = adam(learner.params, result.grads, learner.adam, lr=cfg.outer_lr)
        learner.iteration = iteration + 1
        if checkpoint and learner.iteration % KEPT_EVERY == 0:
            learner.save(checkpoint)
        on_step(iteration, result.loss, result.accuracy)
    return Initialisation(learner.params, net.spec).on("cpu")
