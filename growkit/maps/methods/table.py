"""The methods by name."""

from __future__ import annotations

from types import MappingProxyType

from growkit.errors import NameLookupError, nearest
from growkit.maps.methods import copy, fresh, isometric, mean_pad, net2net, rms_pad, std_pad, zero_pad
from growkit.maps.methods.method import Method

_ALL = (copy, fresh, net2net, zero_pad, mean_pad, isometric, rms_pad, std_pad)
METHODS = MappingProxyType({module.METHOD.name: module.METHOD for module in _ALL})


def method(name: str) -> Method:
    """The method of this name.

    Raises:
        NameLookupError: unknown name; the nearest is named.
    """
    if not isinstance(name, str) or name not in METHODS:
        near = nearest(str(name), METHODS)
        raise NameLookupError(
            f"method {name!r}", ", ".join(METHODS), f"did you mean {near[0]!r}?" if near else "choose one of these"
        )
    return METHODS[name]
