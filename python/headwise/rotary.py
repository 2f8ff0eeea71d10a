"""Rotary positions (Su et al. 2021), as the C++ module turns them."""

import math

import torch
from torch import Tensor

__all__ = ["rotate_by_position"]


def rotate_by_position(heads: Tensor, positions: Tensor) -> Tensor:
    """Turn channels i and i + D/2 of every head by position / 10000^(2i / D).

    Args:
        heads: (..., T, D), D even.
        positions: (T,) integers.

    Returns:
        (..., T, D) of the same dtype; angles are computed in at least float32.
    """
    width = heads.size(-1)
    wide = torch.float64 if heads.dtype == torch.float64 else torch.float32
    pair = torch.arange(0, width, 2, device=heads.device, dtype=wide)
    frequency = torch.exp(pair * (-math.log(10000.0) / width))
    angle = positions.to(wide)[:, None] * frequency
    cosine, sine = angle.cos(), angle.sin()
    first, second = heads.to(wide).chunk(2, -1)
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
    return turned.to(heads.dtype)
