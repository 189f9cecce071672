"""Japanese Vowels: 640 utterances of two vowels by nine speakers, shipped with the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import torch
from safetensors.torch import load
from torch import Tensor

COEFFICIENTS = 12
SPEAKERS = 9


class Batch(NamedTuple):
    """Utterances padded with zeros at their ends."""

    features: Tensor
    """'batch time coefficient', normalised."""
    lengths: Tensor
    """'batch', frames."""
    speakers: Tensor
    """'batch', from 0 to 8."""

    def to(self, device: str | torch.device) -> Batch:
        """The same batch on another device."""
        return Batch(*(tensor.to(device) for tensor in self))


@dataclass(frozen=True)
class Utterances:
    """Utterances of one part of the data, padded to the longest: tensors as in `Batch`."""

    features: Tensor
    lengths: Tensor
    speakers: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, index: Tensor) -> Batch:
        """The utterances of `index: 'batch'`, padded no further than the longest of them."""
        lengths = self.lengths[index]
        return Batch(self.features[index, : int(lengths.max())], lengths, self.speakers[index])

    def shuffled(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """One epoch in an order drawn from `generator`; the last batch may be smaller."""
        for index in torch.randperm(len(self), generator=generator).split(batch_size):
            yield self.batch(index)

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """One epoch in the order of the file."""
        for index in torch.arange(len(self)).split(batch_size):
            yield self.batch(index)


class JapaneseVowels(NamedTuple):
    """The official split."""

    train: Utterances
    test: Utterances


def load_vowels() -> JapaneseVowels:
    """Both parts; the features are normalised per coefficient by mean and deviation of the training frames.

    Source: Kudo, Toyama, Shimbo 1999, UCI Machine Learning Repository, doi:10.24432/C5NS47, CC BY 4.0.
    """
    stored = load(files("growkit.cli").joinpath("data", "japanese_vowels.safetensors").read_bytes())
    lengths = stored["lengths"].long()
    is_test = stored["is_test"].bool()
    frames = stored["frames"]
    train_frames = frames[~is_test.repeat_interleave(lengths)]
    frames = (frames - train_frames.mean(0)) / train_frames.std(0)
    features = torch.nn.utils.rnn.pad_sequence(frames.split(lengths.tolist()), batch_first=True)
    speakers = stored["speaker"].long()

    def part(chosen: Tensor) -> Utterances:
        return Utterances(features[chosen], lengths[chosen], speakers[chosen])

    return JapaneseVowels(part(~is_test), part(is_test))
