"""What has to be equal on all ranks, as text."""

import torch
from torch import nn

from growkit.train.likeness import described, slots, trained


def test_sizes_flags_and_slots_are_told_apart() -> None:
    def made(width: int = 2, *, frozen: str = "", steps: int = 0) -> str:
        net = nn.Linear(3, width)
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(steps):
            net(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        if frozen:
            getattr(net, frozen).requires_grad_(False)
        return described(net, {"main": optimizer})

    texts = [made(), made(5), made(frozen="bias"), made(frozen="weight"), made(steps=1)]
    assert len(set(texts)) == len(texts)
    assert made(steps=1) == made(steps=2)
    assert "weight (5, 3) torch.float32" in texts[1]


def test_slots_come_in_the_order_of_the_parameters() -> None:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(reversed(list(net.parameters())), lr=0.1, momentum=0.9)
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert [(key, *value.shape) for key, value in slots(optimizer)] == [
        ("momentum_buffer", 2),
        ("momentum_buffer", 2, 3),
    ]
    assert trained(net).startswith("2 of 2 parameters")
