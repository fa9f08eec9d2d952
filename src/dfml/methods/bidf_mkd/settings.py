"""The settings of BiDf-MKD: the paper's, the released code's, and what can be afforded."""

from dataclasses import dataclass, replace
from typing import Literal

from dfml.config import above_zero, zero_or_more
from dfml.meta.replay import ReplayConfig
from dfml.methods.bidf_mkd.schedule import ScheduleConfig
from dfml.methods.meta_model import MetaModelConfig
from dfml.recovery.inversion import AFFORDABLE, PUBLISHED, RecoveryConfig


@dataclass(frozen=True, kw_only=True)
class ComponentsConfig:
    """The switches of tab:ablation."""

    distil: bool = True
    """the outer distillation step (eq:outer)"""
    boundary: bool = True
    """query sets near the boundary (eq:adaptive) instead of plain ones"""
    replay: bool = True
    """MAML on interpolated tasks (eq:memory)"""


@dataclass(frozen=True, kw_only=True)
class DistilConfig:
    """Both levels of the distillation."""

    inner_lr: float = 0.01
    inner_steps: int = 10
    outer_lr: float = 0.001
    first_order: bool = False
    divergence: Literal["kl", "released"] = "kl"
    """KL(API || student), or what the released code computes in its place"""
    statistics: Literal["support", "batch"] = "support"
    """BatchNorm of the student while a boundary set is recovered: the support set's statistics, or each batch's"""

    def __post_init__(self) -> None:
        zero_or_more(self, "distil", "inner_lr", "inner_steps", "outer_lr")


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """What is remembered, and under which name."""

    capacity: int = 20
    """recovered sets a class"""
    merge_by_name: bool = False
    """pool the classes of several APIs that bear one name"""
    require_agreement: bool = True
    """forget images that their own API does not give their class"""
    roles: bool = False
    """draw support images from support sets and query images from query sets, instead of both from all"""

    def __post_init__(self) -> None:
        above_zero(self, "memory", "capacity")


@dataclass(frozen=True, kw_only=True)
class BidfMkdConfig:
    """Everything; each field is a `--set group.key=value`."""

    net: MetaModelConfig = MetaModelConfig()
    recovery: RecoveryConfig = AFFORDABLE
    components: ComponentsConfig = ComponentsConfig()
    distil: DistilConfig = DistilConfig()
    memory: MemoryConfig = MemoryConfig()
    replay: ReplayConfig = ReplayConfig()
    schedule: ScheduleConfig = ScheduleConfig()


PAPER = BidfMkdConfig(
    recovery=PUBLISHED,
    memory=MemoryConfig(roles=True, require_agreement=False),
    # As many visits as the released code's plateaus allow, 1.8 billion queries; the text gives no number.
    schedule=ScheduleConfig(iterations=60_000, visits=300),
)
RELEASED = BidfMkdConfig(
    # In the code mu is added to normalised pixels, whose standard deviation is about 0.26.
    recovery=replace(PUBLISHED, radius=0.0013),
    distil=DistilConfig(divergence="released", statistics="batch"),
    memory=MemoryConfig(merge_by_name=True, require_agreement=False),
    schedule=ScheduleConfig(iterations=60_000, plateau=200),
)
PRESETS = {"default": BidfMkdConfig(), "paper": PAPER, "released": RELEASED}
