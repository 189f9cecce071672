"""A flow and a loop of one's own: sharpness-aware steps, and slow weights that follow the fast ones.

Both keep to the protocol in growkit/train/loop.py: `run` gives an outcome for each unit of work, and what has to be
saved between two of them is in `state_dict`.
"""

import torch
from torch import nn

from growkit.train import Engine, Settings
from growkit.train.outcome import Outcome, as_step_result
from growkit.train.window import Window


class SharpnessAware:
    """A flow: steps by the gradient at the worst place within a radius of the weights (Foret et al. 2021)."""

    def __init__(self, state, train_step, steps, radius=0.05):
        self.state, self.train_step, self.steps, self.radius = state, train_step, steps, radius

    def run(self, batch, window: Window, carry=None):
        weights = list(self.state.runtime.model.parameters())
        before = [weight.detach().clone() for weight in weights]
        metrics = self.gradients(batch)
        norm = nn.utils.get_total_norm([weight.grad for weight in weights])
        with torch.no_grad():
            for weight in weights:
                weight += weight.grad * (self.radius / norm)
        self.gradients(batch)
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)
        self.steps.step("main")  # the only optimizer; clips, and steps the schedulers too
        yield Outcome(metrics, updates={"main": 1})

    def gradients(self, batch):
        self.steps.zero_grad("main")
        result = as_step_result(self.train_step(self.state.offered_to_train_step(batch)))
        self.steps.backward(result.loss, Window())
        return result.metrics

    def state_dict(self):
        return {}

    def load_state_dict(self, state): ...


class Lookahead:
    """A loop: after every fifth batch the weights go back half the way to where they then were (Zhang et al. 2019)."""

    def __init__(self, state, inner):
        self.state, self.inner, self.slow = state, inner, None
        state.when_model_changes.append(self.forget)

    def run(self, batch, window: Window, carry=None):
        weights = list(self.state.runtime.model.parameters())
        if self.slow is None:
            self.slow = [weight.detach().clone() for weight in weights]
        for outcome in self.inner.run(batch, window, carry):
            if outcome.ends_batch and self.state.progress.step % 5 == 4:
                with torch.no_grad():
                    for weight, slow in zip(weights, self.slow, strict=True):
                        weight.copy_(slow.lerp_(weight, 0.5))
            yield outcome  # last, so that all is done when a checkpoint is written

    def forget(self):
        self.slow = None

    def state_dict(self):
        return {"slow": self.slow, "inner": self.inner.state_dict()}

    def load_state_dict(self, state):
        self.slow = state["slow"]
        self.inner.load_state_dict(state["inner"])


def data() -> list[tuple[torch.Tensor, torch.Tensor]]:
    points = torch.rand(20, 32, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
    return [(batch, batch[:, :1] * batch[:, 1:]) for batch in points]


def train_step(model, batch):
    points, targets = batch
    return (model(points) - targets).square().mean()


def main(epochs: int = 15) -> Engine:
    torch.manual_seed(0)
    engine = Engine(
        nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)),
        train_step,
        data(),
        optimizers=lambda model: torch.optim.Adam(model.parameters(), lr=3e-2),
        settings=Settings(gradient_clip_norm=1.0, log_every=60),
        loops=[Lookahead],
        flow=SharpnessAware,
    )
    engine.explain()
    engine.fit(epochs)
    for row in engine.history:
        print(f"step {row['step']:3}: loss {row['loss_mean']:.3f}")
    return engine


if __name__ == "__main__":
    main()
