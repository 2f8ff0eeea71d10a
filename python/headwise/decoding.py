"""Attention step by step, over a cache of keys and values; letters as in `functional`."""

import torch
from torch import Tensor

from headwise.functional import Window, window_list

__all__ = ["attention_decode", "cache_append"]


def attention_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    lengths: Tensor,
    *,
    causal: bool = True,
    window: Window | None = None,
    bias: Tensor | None = None,
    hide: Tensor | None = None,
    beam_index: Tensor | None = None,
    scale: float | None = None,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of the newest tokens over a cache of keys and values. Inference only.

    Args:
        query: (B, H, T_q, D), 1 <= T_q <= 8.
        key_cache: (rows, G, capacity, D).
        value_cache: (rows, G, capacity, D_v).
        lengths: (B,) int32 or int64, the new tokens included.
        causal: query i sees the keys j <= i + length - T_q.
        hide, bias: as in `attention`, with T_k the capacity.
        window, scale, return_lse: as in `attention`.
        beam_index: int32: (B,) cache row of each sequence or (B, capacity) cache row of each
            position, so that reordering beams never copies a cache. Default: sequence b, row b.

    Returns:
        (B, H, T_q, D_v); with `return_lse` also (B, H, T_q).
    """
    output, lse = torch.ops.headwise.attention_decode(
        query,
        key_cache,
        value_cache,
        lengths,
        causal=causal,
        window=window_list(window),
        bias=bias,
        hide=hide,
        beam_index=beam_index,
        scale=scale,
    )
    return (output, lse) if return_lse else output


def cache_append(
    key_cache: Tensor,
    value_cache: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Tensor,
    max_length: int | None = None,
) -> None:
    """Write new keys and values into the first B rows of the caches, in place. Inference only.

    Args:
        key_cache: (rows, G, capacity, D), changed.
        value_cache: (rows, G, capacity, D_v), changed.
        key: (B, G, T, D), for the positions lengths[b] to lengths[b] + T - 1.
        value: (B, G, T, D_v).
        lengths: (B,) int32 or int64, before appending.
        max_length: the largest of `lengths`, where known on the host.

    Raises:
        ValueError, RuntimeError: before anything is written, if the capacity would be exceeded.
    """
    torch.ops.headwise.cache_append(key_cache, value_cache, key, value, lengths, max_length)
