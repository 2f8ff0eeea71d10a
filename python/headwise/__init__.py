"""Fused multi-head attention for PyTorch: masks, causal, grouped heads and dropout at once.

>>> import torch, headwise
>>> q, k, v = (torch.randn(2, 8, 16, 64) for _ in range(3))
>>> headwise.attention(q, k, v, causal=True, dropout=0.1).shape
torch.Size([2, 8, 16, 64])

The functions are differentiable, deterministic, and refuse what they do not support. `hide` always
means True = hidden. `headwise.nn.MultiHeadAttention` is the module on top of them.
"""

from headwise import _library  # first: loads torch, then the op library  # isort: skip
from headwise import nn
from headwise.decoding import attention_decode, cache_append
from headwise.drop_in import scaled_dot_product_attention
from headwise.functional import (
    attention,
    attention_packed,
    attention_weights,
    attention_weights_packed,
)
from headwise.inspection import (
    STATISTICS,
    attention_statistics,
    attention_statistics_packed,
    explain,
    explain_packed,
)
from headwise.loading import load
from headwise.loss import linear_cross_entropy
from headwise.mask_check import check_masks
from headwise.rows import activation_dropout, residual_norm

__version__ = _library.VERSION

__all__ = [
    "STATISTICS",
    "activation_dropout",
    "attention",
    "attention_decode",
    "attention_packed",
    "attention_statistics",
    "attention_statistics_packed",
    "attention_weights",
    "attention_weights_packed",
    "cache_append",
    "check_masks",
    "explain",
    "explain_packed",
    "linear_cross_entropy",
    "load",
    "nn",
    "residual_norm",
    "scaled_dot_product_attention",
]
