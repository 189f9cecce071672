"""Small models of the kinds that people have, by name: `ZOO["U-Net"].make()` gives a model and inputs.

`ZOO` holds models out of torch's own layers, `FOREIGN` those of other libraries.
"""

from types import MappingProxyType

from growkit.testing.zoo import blocks, convolutional, decoders, recurrent, transformers
from growkit.testing.zoo.entry import Entry, Size, either
from growkit.testing.zoo.foreign import FOREIGN

__all__ = ["FOREIGN", "ZOO", "Entry", "Size", "either"]

ZOO = MappingProxyType(
    {
        entry.name: entry
        for family in (convolutional, recurrent, transformers, decoders, blocks)
        for entry in family.ENTRIES
    }
)
