"""The methods by name."""

from __future__ import annotations

from types import MappingProxyType

from growkit.errors import NameLookupError, nearest
from growkit.maps.methods import copy, fresh, net2net, zero_pad
from growkit.maps.methods.method import Method

METHODS = MappingProxyType({m.name: m for m in (copy.METHOD, fresh.METHOD, net2net.METHOD, zero_pad.METHOD)})


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
