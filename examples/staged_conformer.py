"""Staged training of a Conformer: stages change the data, the batch size and the learning rate, and grow the net.

One callback at the start of each epoch does it all, as in the proposal for RETURNN.
"""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

import growkit as gk
from growkit.nn import ConformerEncoder
from growkit.train import Engine, Settings, StepCallbackReturn

PHONES, FRAMES_PER_PHONE, SAMPLES = 6, 4, 384


def train_data(*, epoch, batch_size, phones):
    """Noisy frames, some for each phone, and the phones: `'batch time phone'`, `'batch time'`."""
    generator = torch.Generator().manual_seed(epoch)
    targets = torch.randint(PHONES, (SAMPLES, phones), generator=generator).repeat_interleave(FRAMES_PER_PHONE, 1)
    frames = F.one_hot(targets, PHONES) + 0.7 * torch.randn(*targets.shape, PHONES, generator=generator)
    return list(zip(frames.split(batch_size), targets.split(batch_size), strict=True))


class Labels(nn.Module):
    """A phone for each frame: `'batch time input' -> 'batch time phone'`."""

    def __init__(self):
        super().__init__()
        self.encoder = ConformerEncoder(PHONES, model_dim=8, ffn_dim=8, num_heads=2, num_layers=1, kernel_size=5)
        self.output = nn.Linear(8, PHONES)

    def forward(self, frames):
        lengths = torch.full((frames.size(0),), frames.size(1))
        return self.output(self.encoder(frames, lengths)[0])


def train_step(model, batch):
    frames, targets = batch
    return F.cross_entropy(model(frames).flatten(0, 1), targets.flatten())


def eval_step(model, batch):
    frames, targets = batch
    return {"errors": (model(frames).argmax(-1) != targets).double().mean()}


def train_epoch_callback(epoch, growth):
    """Before the first batch of an epoch; a name is grown once, also over interrupted and resumed runs."""
    if epoch == 3:
        return StepCallbackReturn(config_updates={"batch_size": 16, "train_data": partial(train_data, phones=10)})
    if epoch == 5:
        return growth.request(
            "wide",
            widen={"encoder.input_projection.weight[0]": 2.0, "ffn_dim": 4.0, "num_heads": 2.0},
            config_updates={"learning_rate": 3e-3},
        )
    if epoch == 7:
        return growth.request("deep", deepen={"encoder.layers": 3}, config_updates={"batch_size": 32})
    return None


def main(epochs: int = 8) -> Engine:
    torch.manual_seed(0)
    engine = Engine(
        Labels(),
        train_step,
        partial(train_data, phones=4),
        optimizers=lambda model: torch.optim.AdamW(model.parameters()),
        settings=Settings(learning_rate=5e-3, batch_size=32, evaluate_every=1),
        epoch_callbacks=[train_epoch_callback],
        services={"growth": gk.Growth(example_inputs=torch.randn(2, 12, PHONES))},
        eval_step=eval_step,
        eval_data=train_data(epoch=0, batch_size=64, phones=10),
    )
    engine.explain()
    engine.fit(epochs)
    print("epoch  steps  parameters  frame errors")
    for row in engine.evaluations:
        print(f"{row['epoch']:5} {row['step']:6} {row['parameters']:11,} {row['eval_errors']:13.3f}")
    return engine


if __name__ == "__main__":
    main()
