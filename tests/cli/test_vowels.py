"""The data set in the package."""

from __future__ import annotations

from importlib.resources import files

import torch
from safetensors import safe_open

from growkit.cli.vowels import COEFFICIENTS, SPEAKERS, load_vowels

# Counts as published with the data set (UCI 128): 30 training utterances a speaker, and these for the test.
TEST_COUNTS = [31, 35, 88, 44, 29, 24, 40, 50, 29]


def test_counts_are_the_published_ones() -> None:
    data = load_vowels()
    assert (len(data.train), len(data.test)) == (270, 370)
    assert data.train.speakers.bincount(minlength=SPEAKERS).tolist() == [30] * 9
    assert data.test.speakers.bincount(minlength=SPEAKERS).tolist() == TEST_COUNTS
    lengths = torch.cat([data.train.lengths, data.test.lengths])
    assert (lengths.min().item(), lengths.max().item(), lengths.sum().item()) == (7, 29, 9961)


def test_training_frames_are_normalised() -> None:
    train = load_vowels().train
    frames = torch.cat([f[:n] for f, n in zip(train.features, train.lengths.tolist(), strict=True)])
    assert frames.shape == (int(train.lengths.sum()), COEFFICIENTS)
    assert torch.allclose(frames.mean(0), torch.zeros(12), atol=1e-5)
    assert torch.allclose(frames.std(0), torch.ones(12), atol=1e-5)


def test_padding_is_zero() -> None:
    for part in load_vowels():
        for features, length in zip(part.features, part.lengths.tolist(), strict=True):
            assert not features[length:].any()


def test_an_epoch_has_each_utterance_once_in_an_order_of_the_generator() -> None:
    train = load_vowels().train

    def epoch(seed: int) -> list:
        return list(train.shuffled(32, torch.Generator().manual_seed(seed)))

    batches = epoch(1)
    assert [len(batch.lengths) for batch in batches] == [32] * 8 + [14]
    assert all(batch.features.shape[1] == batch.lengths.max() for batch in batches)
    assert torch.cat([b.speakers for b in batches]).bincount().tolist() == [30] * 9
    assert torch.equal(batches[0].features, epoch(1)[0].features)
    assert not torch.equal(batches[0].speakers, epoch(2)[0].speakers)


def test_in_order_follows_the_file() -> None:
    test = load_vowels().test
    assert torch.equal(torch.cat([batch.lengths for batch in test.in_order(100)]), test.lengths)


def test_source_and_licence_travel_with_the_data() -> None:
    folder = files("growkit.cli").joinpath("data")
    with safe_open(str(folder.joinpath("japanese_vowels.safetensors")), "pt") as stored:
        metadata = stored.metadata()
    text = folder.joinpath("README.md").read_text()
    assert metadata["license"] == "CC BY 4.0"
    for part in ("CC BY 4.0", "Kudo", "Toyama", "Shimbo", "10.24432/C5NS47"):
        assert part in text
        assert part in " ".join(metadata.values())
