"""Rules of ops, one file a family. Importing this package enters them in the table."""

from growkit.discovery.rules import attention, contractions, elementwise, indexing, norms, reductions, views

__all__ = ["attention", "contractions", "elementwise", "indexing", "norms", "reductions", "views"]
