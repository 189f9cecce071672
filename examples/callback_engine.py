"""A network that becomes wider, then deeper, in the middle of its training: asked for by one callback."""

import torch
from torch import nn

import growkit as gk
from growkit.train import Engine, Settings


class Block(nn.Module):
    """A pre-norm residual block: `'batch stream' -> 'batch stream'`."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        return stream + self.down(torch.relu(self.up(self.norm(stream))))


class Regressor(nn.Module):
    """`'batch 2' -> 'batch 1'`."""

    def __init__(self, width: int, hidden: int, depth: int):
        super().__init__()
        self.embed = nn.Linear(2, width)
        self.blocks = nn.ModuleList(Block(width, hidden) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        stream = self.embed(points)
        for block in self.blocks:
            stream = block(stream)
        return self.head(stream)


def batches(epoch: int):
    """Points of the square and a wavy function of them; the same points in every run."""
    generator = torch.Generator().manual_seed(epoch)
    for _ in range(50):
        points = torch.rand(64, 2, generator=generator) * 4 - 2
        yield points, (torch.sin(3 * points[:, :1]) * torch.cos(2 * points[:, 1:]))


def train_step(model, batch):
    points, targets = batch
    return (model(points) - targets).square().mean()


def grow_in_stages(step, growth):
    """Called before each optimizer step. A name is grown once, so >= does no harm; == could miss its step."""
    if step >= 200:
        return growth.request("deeper", deepen={"blocks": 3}, config_updates={"learning_rate": 2e-3})
    if step >= 100:
        return growth.request("wider", widen={"blocks.*.up.weight[0]": 4.0})
    return None


def main() -> Engine:
    torch.manual_seed(0)
    model = Regressor(width=16, hidden=4, depth=1)
    engine = Engine(
        model,
        train_step,
        batches,
        optimizers=torch.optim.AdamW(model.parameters(), lr=5e-3),
        settings=Settings(log_every=100),
        callbacks=[grow_in_stages],
        services={"growth": gk.Growth(example_inputs=torch.eye(2))},
    )
    engine.explain()
    engine.fit(epochs=10)
    return engine


if __name__ == "__main__":
    main()
