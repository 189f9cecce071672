"""The methods by name."""

from __future__ import annotations

import difflib
from types import MappingProxyType

from growkit.errors import MapError
from growkit.maps.methods import copy, fresh, net2net, zero_pad
from growkit.maps.methods.method import Method

METHODS = MappingProxyType({m.name: m for m in (copy.METHOD, fresh.METHOD, net2net.METHOD, zero_pad.METHOD)})


def method(name: str) -> Method:
    """The method of this name.

    Raises:
        MapError: unknown name; the nearest is named.
    """
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, 1, 0.0)[0]
        raise MapError(f"method {name!r}", ", ".join(METHODS), f"did you mean {near!r}?")
    return METHODS[name]
