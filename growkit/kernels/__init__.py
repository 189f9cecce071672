"""Maps applied to tensors. `apply` is the kernel in use; `dense` is its oracle."""

from growkit.kernels.dense import dense
from growkit.kernels.gather import gather as apply

__all__ = ["apply", "dense"]
