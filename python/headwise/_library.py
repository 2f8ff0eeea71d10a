"""Loads torch and then the op library, in this order, once."""

import torch

from headwise._build import TORCH_VERSION, VERSION

if str(torch.__version__) != TORCH_VERSION:
    # Loading the library all the same would end in an unreadable symbol, or worse, without one.
    raise ImportError(
        f"headwise {VERSION} was built against torch {TORCH_VERSION}, but torch "
        f"{torch.__version__} is installed: build it again with "
        "`pip install --no-build-isolation .` from its source folder"
    )

from headwise._C import KeyValueCache  # not before torch is known to fit

__all__ = ["VERSION", "KeyValueCache"]
