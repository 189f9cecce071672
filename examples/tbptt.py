"""A character model that learns a rhyme by truncated backpropagation through time, and grows in between."""

import math
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F

import growkit as gk
from growkit.train import Engine, Settings

LINES = [
    "malt\nthat lay in",
    "rat\nthat ate",
    "cat\nthat chased",
    "dog\nthat worried",
    "cow with the crumpled horn\nthat tossed",
    "maiden all forlorn\nthat milked",
    "man all tattered and torn\nthat kissed",
    "priest all shaven and shorn\nthat married",
]
VERSES = [" the ".join(["This is", *reversed(LINES[:count]), "house that Jack built."]) for count in range(9)]
TEXT = "\n\n".join(VERSES) + "\n\n"
LETTERS = sorted(set(TEXT))
CODES = torch.tensor([LETTERS.index(letter) for letter in TEXT])
ROWS, BATCH_STEPS = 16, 100


class CharacterModel(nn.Module):
    """Scores for the next letter, and the state to go on with: `'batch time' -> 'batch time letter'`."""

    def __init__(self, hidden: int):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), 16)
        self.lstm = nn.LSTM(16, hidden, batch_first=True)
        self.head = nn.Linear(hidden, len(LETTERS))

    def forward(self, codes, state=None):
        outputs, state = self.lstm(self.embed(codes), state)
        return self.head(outputs), state


def batches():
    """Each row begins at a place of its own and reads on through the rhyme, from one batch to the next."""
    starts = torch.arange(ROWS)[:, None] * (len(TEXT) // ROWS)
    for begin in range(0, len(TEXT), BATCH_STEPS):
        codes = CODES[(starts + begin + torch.arange(BATCH_STEPS + 1)) % len(TEXT)]
        yield {"codes": codes[:, :-1], "targets": codes[:, 1:]}


def train_step(model, batch, carry):
    logits, carry = model(batch["codes"], carry)
    return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten()), carry


def grow(step, growth):
    if step >= 52:
        return growth.request("wide", widen={"lstm.weight_hh_l0[1]": 2.0})
    return None


def make_engine() -> Engine:
    torch.manual_seed(0)
    return Engine(
        CharacterModel(32),
        train_step,
        batches,
        optimizers=lambda model: torch.optim.Adam(model.parameters(), lr=5e-3),
        settings=Settings(truncated_bptt_steps=25, time_dims=1, carry_over_batches=True, log_every=13),
        callbacks=[grow],
        services={"growth": gk.Growth(example_inputs=CODES[None, :8])},
    )


# ---------------------------------------------------------------------------------- to look at what it learned


def entropy(letters_before: int) -> float:
    """Nats per letter that remain for whoever knows how often each follows on so many letters before it."""
    text = TEXT + TEXT[:letters_before]
    seen = Counter(text[i : i + letters_before + 1] for i in range(len(TEXT)))
    before = Counter()
    for letters, count in seen.items():
        before[letters[:-1]] += count
    return -sum(count * math.log(count / before[letters[:-1]]) for letters, count in seen.items()) / len(TEXT)


@torch.no_grad()
def sample(model: nn.Module, begin: str, length: int) -> str:
    """The likeliest letters after these, one after another."""
    text, codes, state = begin, torch.tensor([[LETTERS.index(letter) for letter in begin]]), None
    for _ in range(length):
        logits, state = model(codes, state)
        codes = logits[:, -1:].argmax(-1)
        text += LETTERS[codes.item()]
    return text


def main(epochs: int = 10) -> Engine:
    engine = make_engine()
    engine.explain()
    engine.fit(epochs)
    print("nats per letter:", ", ".join(f"{entropy(count):.2f} after {count}" for count in range(4)), "letters")
    print("\nepoch   parameters   loss")
    for row in engine.history:
        print(f"{row['epoch']:5} {row['parameters']:12,} {row['loss_mean']:6.3f}")
    print("\n" + sample(engine.model, "This is the cow", 160))
    return engine


if __name__ == "__main__":
    main()
