"""A stand-in for `torch.nn.functional.scaled_dot_product_attention`."""

import torch
from torch import Tensor

from headwise.functional import attention

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Do what the function of the same name in `torch.nn.functional` does, on the fused op.

    Arguments, shapes and defaults are torch's: a bool `attn_mask` means True = keep, a float one is
    added to the scores, `is_causal` aligns the first query with the first key, `dropout_p` acts
    whenever it is not 0. One difference: a row that sees no key gives 0, where torch may give NaN.

    Args:
        query: (..., H, T_q, D); also (T_q, D).
        key: (..., G, T_k, D).
        value: (..., G, T_k, D_v).
        attn_mask: bool or float, broadcastable to (..., H, T_q, T_k).
        dropout_p: 0 <= dropout_p < 1.
        is_causal: not together with `attn_mask`.
        scale: of the scores; 1 / sqrt(D) by default.
        enable_gqa: allow fewer key/value heads than query heads.

    Returns:
        (..., H, T_q, D_v).

    Raises:
        ValueError: for shapes or combinations torch would refuse as well.
    """
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask and is_causal=True exclude each other: fold one into the other")
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ValueError(
            "query, key and value need at least 2 axes; got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    heads = [x.size(-3) if x.dim() > 2 else 1 for x in (query, key, value)]
    if not enable_gqa and len(set(heads)) > 1:
        raise ValueError(
            "query, key and value must have equally many heads without enable_gqa=True; got "
            f"{heads[0]}, {heads[1]} and {heads[2]}"
        )
    keep, bias = _split_mask(_as_4d_mask(attn_mask, query))
    output = attention(
        _as_4d(query),
        _as_4d(key),
        _as_4d(value),
        keep=keep,
        bias=bias,
        causal=is_causal,
        align="start",
        scale=scale,
        dropout=dropout_p,
    )
    return output.reshape(*query.shape[:-1], value.size(-1)) if query.dim() != 4 else output


def _as_4d(x: Tensor) -> Tensor:
    if x.dim() > 4:
        return x.flatten(0, -4)
    return x[(None,) * (4 - x.dim())]


def _as_4d_mask(mask: Tensor | None, query: Tensor) -> Tensor | None:
    if mask is None or mask.dim() == 2:
        return mask
    if query.dim() > 4 and mask.dim() > 3:
        return mask.expand(*query.shape[:-3], *mask.shape[-3:]).flatten(0, -4)
    return mask[(None,) * (4 - mask.dim())]


def _split_mask(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    if mask is None or mask.dtype == torch.bool:
        return mask, None
    return None, mask
