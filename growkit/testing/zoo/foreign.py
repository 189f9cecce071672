"""Models of other libraries by name; a library is imported when a model of it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from growkit.errors import MissingLibraryError
from growkit.testing.zoo.entry import Entry


@dataclass(frozen=True)
class Family:
    """The models that one module beside this one builds from one library."""

    library: str
    names: tuple[str, ...]


FAMILIES = {
    "hf_text": Family(
        "transformers",
        (
            "GPT-2",
            "GPT-NeoX",
            "BERT",
            "Llama",
            "Qwen3",
            "Gemma 2",
            "Phi-3",
            "Falcon",
            "Mixtral",
            "T5",
            "Mamba",
            "DeepSeek-V3",
        ),
    ),
    "x_transformers": Family("x-transformers", ("x-transformers decoder", "x-transformers encoder")),
    "hf_speech": Family("transformers", ("Wav2Vec2", "Wav2Vec2, pre-norm", "Whisper")),
    "hf_conformers": Family(
        "transformers",
        (
            "Wav2Vec2-Conformer, relative",
            "Wav2Vec2-Conformer, rotary",
            "Wav2Vec2-BERT",
            "FastSpeech2Conformer encoder",
            "FastSpeech2Conformer encoder, concatenated",
            "Parakeet encoder",
            "Lasr encoder",
            "SeamlessM4T speech encoder",
            "SeamlessM4T v2 speech encoder",
            "Granite speech encoder",
        ),
    ),
    "hf_vision": Family("transformers", ("ViT", "ConvNeXt", "RegNet Y")),
    "lucidrains": Family("conformer", ("conformer",)),
    "returnn": Family("returnn and dm-tree", ("RETURNN Conformer",)),
}
"""By module of this package. The names stand here too, so that they can be listed without the libraries."""


class Foreign(Mapping[str, Entry]):
    """The entries of all families by name: `FOREIGN["GPT-2"].make()` gives a model and inputs.

    Raises:
        MissingLibraryError: where an entry is asked for whose library is not installed.
    """

    def __init__(self, families: Mapping[str, Family]):
        self.families = families

    def __iter__(self) -> Iterator[str]:
        return (name for family in self.families.values() for name in family.names)

    def __len__(self) -> int:
        return sum(len(family.names) for family in self.families.values())

    def __getitem__(self, name: str) -> Entry:
        for module, family in self.families.items():
            if name in family.names:
                return {entry.name: entry for entry in _entries(module, family.library)}[name]
        raise KeyError(name)


def _entries(module: str, library: str) -> tuple[Entry, ...]:
    try:
        found: tuple[Entry, ...] = importlib.import_module(f"{__package__}.{module}").ENTRIES
    except ModuleNotFoundError as error:
        raise MissingLibraryError(
            f"a model of {library}, and no module {error.name}",
            f"an environment in which {library} is installed",
            "pip install 'growkit[zoo]'",
        ) from error
    return found


FOREIGN = Foreign(FAMILIES)
