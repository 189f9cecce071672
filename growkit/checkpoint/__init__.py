"""Nested states on disk: safetensors and JSON, written whole or not at all, checked when read."""

from growkit.checkpoint.folder import Description, describe, load, remove, save, tidy, verify
from growkit.checkpoint.retention import Latest, Retention, described_in, latest

__all__ = [
    "Description",
    "Latest",
    "Retention",
    "describe",
    "described_in",
    "latest",
    "load",
    "remove",
    "save",
    "tidy",
    "verify",
]
