"""The run of tbptt.py, by hand: the train step cuts the batch, and does backward and optimizer steps itself."""

import torch
from tbptt import CODES, CharacterModel, batches, grow
from torch.nn import functional as F

import growkit as gk
from growkit.train import Engine, Settings, split_batch


def train_step(model, batch, carry, flow):
    for split in split_batch(batch, 25, time_dims=1):
        flow.zero_grad()
        logits, carry = model(split.batch["codes"], carry)
        loss = F.cross_entropy(logits.flatten(0, 1), split.batch["targets"].flatten())
        flow.backward(loss)
        flow.step()
        carry = tuple(part.detach() for part in carry)
    return loss, carry


def main(epochs: int = 10) -> Engine:
    torch.manual_seed(0)
    engine = Engine(
        CharacterModel(32),
        train_step,
        batches,
        optimizers=lambda model: torch.optim.Adam(model.parameters(), lr=5e-3),
        settings=Settings(carry_over_batches=True, log_every=13),
        callbacks=[grow],
        services={"growth": gk.Growth(example_inputs=CODES[None, :8])},
    )
    engine.explain()
    engine.fit(epochs)
    for row in engine.history:
        print(f"epoch {row['epoch']}: {row['updates']} updates, loss of the last split {row['loss']:.3f}")
    return engine


if __name__ == "__main__":
    main()
