"""Small models of the kinds that people have, by name: `ZOO["U-Net"].make()` gives a model and inputs."""

from types import MappingProxyType

from growkit.testing.zoo import convolutional, decoders, recurrent, transformers
from growkit.testing.zoo.entry import Entry, Size

__all__ = ["ZOO", "Entry", "Size"]

ZOO = MappingProxyType(
    {entry.name: entry for family in (convolutional, recurrent, transformers, decoders) for entry in family.ENTRIES}
)
