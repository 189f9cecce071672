"""Two networks against each other: a train step that yields one loss for each of two optimizers, by name."""

import torch
from torch import nn
from torch.nn import functional as F

from growkit.train import Engine, Settings

BATCH = 256


def real(count: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """Two humps on a line, at -2 and 2: `'count 1'`."""
    sides = 2.0 * torch.randint(2, (count, 1), generator=generator) - 1.0
    return 2.0 * sides + 0.3 * torch.randn(count, 1, generator=generator)


def net(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
    )


class Players(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.discriminator = net(4), net(1)


def train_step(model, batch):
    made = model.generator(torch.randn(len(batch), 4))
    points = batch.clone().requires_grad_()
    judged = model.discriminator(points)
    (slope,) = torch.autograd.grad(judged.sum(), points, create_graph=True)
    loss = F.softplus(-judged).mean() + F.softplus(model.discriminator(made.detach())).mean()
    yield "discriminator", loss + 0.2 * slope.square().mean()  # the penalty R1 of Mescheder et al. 2018
    yield "generator", F.softplus(-model.discriminator(made)).mean()  # made once, judged by the updated discriminator


def optimizers(model):
    return {
        "discriminator": torch.optim.Adam(model.discriminator.parameters(), lr=5e-3, betas=(0.0, 0.9)),
        "generator": torch.optim.Adam(model.generator.parameters(), lr=2e-3, betas=(0.0, 0.9)),
    }


@torch.no_grad()
def distance(model: nn.Module, count: int = 4096) -> float:
    """How far, on average, mass has to be moved to make the generated distribution the real one.

    On a line the cheapest way keeps the order (Wasserstein-1 distance).
    """
    draws = torch.Generator().manual_seed(1)
    made = model.generator(torch.randn(count, 4, generator=draws))
    return (made.sort(0).values - real(count, draws).sort(0).values).abs().mean().item()


def main(steps: int = 800) -> list[float]:
    torch.manual_seed(0)
    data = [real(BATCH) for _ in range(100)]
    engine = Engine(Players(), train_step, data, optimizers=optimizers, settings=Settings(log_every=200))
    engine.explain()
    distances = []
    print(" step  distance")
    for done in range(0, steps + 1, 200):
        engine.fit(max_steps=done)
        distances.append(distance(engine.model))
        print(f"{done:5} {distances[-1]:9.3f}")
    return distances


if __name__ == "__main__":
    main()
