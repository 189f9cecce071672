"""Maps of an axis of two units, and which of them a constraint admits."""

from growkit.constraints.constraint import Constraint
from growkit.maps.axis_map import NEW, AxisMap

MAPS = {
    "x2": AxisMap.copies(2, (0, 1, 0, 1)),
    "3": AxisMap.copies(2, (0, 1, 0)),
    "fresh": AxisMap.copies(2, (0, 1, NEW)),
    "padded": AxisMap.copies(2, (0, 1, NEW), padded=True),
    "unequal shares": AxisMap(2, (0, 1, 0, 1), (1.0,) * 4, (0.5, 0.25, 0.5, 0.75)),
    "fresh first": AxisMap.copies(2, (NEW, 0, 1)),
    "scaled": AxisMap(2, (0, 1, 0, 1), (1.0, 1.0, 2.0, 2.0), (0.5, 0.5, 0.25, 0.25)),
    "scaled alike": AxisMap(2, (0, 1, 0, 1), (2.0,) * 4, (0.25,) * 4),
}
UNSCALED = {"x2", "3", "fresh", "fresh first", "unequal shares"}


def admitted(constraint: Constraint) -> set[str]:
    return {name for name, axis_map in MAPS.items() if constraint(axis_map) is None}
