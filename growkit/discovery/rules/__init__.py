"""Rules of ops, one file a family. Importing this package enters them in the table."""

from growkit.discovery.rules import (
    attention,
    contractions,
    convolutions,
    elementwise,
    indexing,
    norms,
    picking,
    placing,
    pooling,
    recurrent,
    reductions,
    scans,
    shuffles,
    views,
    weights,
)

__all__ = [
    "attention",
    "contractions",
    "convolutions",
    "elementwise",
    "indexing",
    "norms",
    "picking",
    "placing",
    "pooling",
    "recurrent",
    "reductions",
    "scans",
    "shuffles",
    "views",
    "weights",
]
