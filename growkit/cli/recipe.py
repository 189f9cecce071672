"""The numbers of the demo: what it trains, how, and when it grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from growkit.cli.vowels import COEFFICIENTS, SPEAKERS
from growkit.nn import ConformerClassifier, ConformerEncoder

Kind = Literal["width", "depth"]


@dataclass(frozen=True)
class Sizes:
    """Arguments of `ConformerEncoder`; as they stand, a network too small for the task."""

    input_dim: int = COEFFICIENTS
    model_dim: int = 4
    ffn_dim: int = 2
    num_heads: int = 2
    num_layers: int = 1
    kernel_size: int = 5
    head_dim: int = 4
    conv_channels: int = 2
    position_dim: int = 16
    dropout: float = 0.1

    def build(self) -> ConformerClassifier:
        """A fresh network of these sizes that tells the speakers apart."""
        return ConformerClassifier(ConformerEncoder(**asdict(self)), SPEAKERS)


@dataclass(frozen=True)
class Stage:
    """One growth, asked for before step `step`: in width by factors, or in depth to a number of blocks."""

    step: int
    name: str
    widen: Mapping[str, float] = field(default_factory=dict)
    num_layers: int | None = None

    @property
    def kind(self) -> Kind:
        """What grows."""
        return "width" if self.widen else "depth"

    @property
    def deepen(self) -> Mapping[str, int]:
        """The growth in depth as `make_plan` takes it."""
        return {} if self.num_layers is None else {"layers": self.num_layers}

    def grown(self, sizes: Sizes) -> Sizes:
        """The sizes after this growth."""
        widths = {name: int(getattr(sizes, name) * factor) for name, factor in self.widen.items()}
        return replace(sizes, num_layers=self.num_layers or sizes.num_layers, **widths)


@dataclass(frozen=True)
class Recipe:
    """One training run. Steps count batches; stages are in order, no two at one step."""

    sizes: Sizes = Sizes()
    stages: tuple[Stage, ...] = (
        Stage(60, "wider", {"model_dim": 2.0, "ffn_dim": 4.0, "num_heads": 2.0, "conv_channels": 4.0}),
        Stage(120, "wider still", {"model_dim": 2.0, "ffn_dim": 2.0, "conv_channels": 2.0}),
        Stage(200, "deeper", num_layers=2),
    )
    steps: int = 600
    learning_rate: float = 5e-3
    last_learning_rate: float = 2e-3
    last_learning_rate_from: int = 450
    """Step from which on the last learning rate holds."""
    weight_decay: float = 0.01
    batch_size: int = 16
    label_smoothing: float = 0.1
    noise: float = 0.3
    """Standard deviation of the noise on the normalised features, in training only."""

    @property
    def least_steps(self) -> int:
        """Steps that leave one before each stage and each between two stages, and one after the last."""
        return len(self.stages) + 2

    def scaled(self, steps: int) -> Recipe:
        """The same schedule in `steps` steps. From `least_steps` on, every growth finds its own step."""
        stages: list[Stage] = []
        for stage in self.stages:
            earliest = stages[-1].step + 1 if stages else 1
            stages.append(replace(stage, step=max(earliest, round(stage.step * steps / self.steps))))
        last_from = round(self.last_learning_rate_from * steps / self.steps)
        return replace(self, steps=steps, stages=tuple(stages), last_learning_rate_from=last_from)

    def ungrown(self) -> Recipe:
        """The same run without a growth."""
        return replace(self, stages=())

    def from_scratch(self) -> Recipe:
        """The same run at the final size from the start."""
        sizes = self.sizes
        for stage in self.stages:
            sizes = stage.grown(sizes)
        return replace(self, sizes=sizes, stages=())
