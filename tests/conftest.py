"""Settings of all tests."""

import torch
from hypothesis import settings

settings.register_profile("growkit", deadline=None, max_examples=50)
settings.load_profile("growkit")
torch.set_num_threads(1)
