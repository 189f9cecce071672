"""A convolutional net and its optimizer in a plain loop: wider after 100 steps, deeper after 200, by hand."""

import torch
from torch import nn
from torch.nn import functional as F

from growkit.ops import deepen, widen_conv, widen_linear


class Residual(nn.Module):
    """`'batch width' -> 'batch width'`"""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Images of bars to their direction: `'batch 1 8 8' -> 'batch 2'`."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.pool = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.MaxPool2d(2)
        self.flat = nn.Linear(4 * 4 * 4, 8)
        self.blocks = nn.ModuleList([Residual(8, 4)])
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.flat(self.pool(F.relu(self.norm(self.conv(x)))).flatten(1))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy bars: direction 0 is horizontal, 1 vertical."""
    direction = torch.randint(2, (32,), generator=generator)
    place = torch.randint(8, (32,), generator=generator)
    images = F.one_hot(place, 8).float().unsqueeze(2).expand(32, 8, 8)
    images = torch.where(direction[:, None, None] == 1, images.transpose(1, 2), images)
    noise = torch.randn(32, 8, 8, generator=generator)
    return (images + 0.7 * noise).unsqueeze(1), direction


def main() -> list[float]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
    losses = []
    for step in range(300):
        if step == 100:
            print(widen_conv(model.conv, model.flat, 8, [model.norm, nn.ReLU(), model.pool], optimizers=optimizer))
            block = model.blocks[0]
            print(widen_linear(block.up, block.down, 16, [nn.GELU()], optimizers=optimizer, method="net2net"))
        if step == 200:
            print(deepen(model.blocks, 1, optimizers=optimizer, example_inputs=torch.randn(2, 8)))
        images, direction = batch(generator)
        loss = F.cross_entropy(model(images), direction)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {sum(p.numel() for p in model.parameters())} parameters")
    return losses


if __name__ == "__main__":
    main()
