"""The attention functions, thin over the dispatcher ops `torch.ops.headwise.*`.

Letters used throughout: B batch, T_q/T_k lengths, H query heads, G key/value heads (H % G == 0),
D head width, D_v value width, N_q/N_k tokens of a packed batch.
"""

import torch
from torch import Tensor

__all__ = [
    "attention",
    "attention_packed",
    "attention_weights",
    "attention_weights_packed",
]

Window = tuple[int | None, int | None]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    hide: Tensor | None = None,
    keep: Tensor | None = None,
    bias: Tensor | None = None,
    query_lengths: Tensor | None = None,
    key_lengths: Tensor | None = None,
    causal: bool = False,
    align: str = "end",
    window: Window | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: Tensor | int | None = None,
    offset: int = 0,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Softmax(scale * query @ key.T + bias) @ value over the visible keys (Vaswani et al. 2017).

    All given rules are combined: a key is hidden if any of them hides it. A row that sees no key
    gives 0 (and gradient 0), never NaN.

    Args:
        query: (B, H, T_q, D), any strides.
        key: (B, G, T_k, D); query head h reads key/value head h // (H // G).
        value: (B, G, T_k, D_v).
        hide: bool, True = hidden; (T_q, T_k) or 4-D broadcastable to (B, H, T_q, T_k).
        keep: the opposite of `hide`; giving both is an error.
        bias: added to the scaled scores; query's dtype or float32, shapes as `hide`; -inf hides.
            Differentiable.
        query_lengths, key_lengths: (B,) int32 or int64; rows and keys past the length do not exist,
            and such rows give 0.
        causal: row i sees keys j <= i + e, where e = key length - query length for align "end" and
            0 for "start".
        align: "end" (last query with last key) or "start".
        window: (left, right): row i sees i + e - left <= j <= i + e + right; None or -1: no bound.
        scale: of the scores; 1 / sqrt(D) by default.
        dropout: probability, 0 <= dropout < 1, of dropping a weight; the rest is scaled up.
        seed: 0-dim int64 tensor or int (mod 2**64): same seed and offset, same dropped weights.
            Drawn from torch's default generator when dropout > 0 and none is given.
        offset: another stream of the same seed, 0 <= offset < 2**32.
        return_lse: also return the natural log of the sum of exponentials of the scores.

    Returns:
        (B, H, T_q, D_v) with the strides of (B, T_q, H, D_v) memory, so that
        `.transpose(1, 2).flatten(2)` is a view; with `return_lse` also (B, H, T_q), -inf for rows
        that see nothing.

    Raises:
        ValueError, RuntimeError: naming the argument, what came and what is required.
    """
    output, lse = torch.ops.headwise.attention(
        query,
        key,
        value,
        query_lengths=query_lengths,
        key_lengths=key_lengths,
        hide=hide,
        keep=keep,
        bias=bias,
        causal=causal,
        align=align,
        window=window_list(window),
        scale=scale,
        dropout=dropout,
        seed=seed_tensor(seed, query),
        offset=offset,
    )
    return (output, lse) if return_lse else output


def attention_packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    max_query: int,
    max_key: int,
    *,
    hide: Tensor | None = None,
    keep: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    align: str = "end",
    window: Window | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: Tensor | int | None = None,
    offset: int = 0,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention over sequences lying end to end, without padding; arguments as in `attention`.

    Args:
        query: (N_q, H, D); sequence b is the rows query_starts[b] to query_starts[b + 1] - 1.
        key: (N_k, G, D).
        value: (N_k, G, D_v).
        query_starts: (B + 1,) int32 or int64, from 0 to N_q.
        key_starts: (B + 1,) int32 or int64, from 0 to N_k.
        max_query, max_key: the longest sequences; hints that never change a result.
        hide, keep, bias: index (b, h, i, j) inside a sequence.
        causal, align, window, scale, dropout, seed, offset, return_lse: as in `attention`; the same
            seed drops the same weights packed and padded.

    Returns:
        (N_q, H, D_v); with `return_lse` also (N_q, H).
    """
    output, lse = torch.ops.headwise.attention_packed(
        query,
        key,
        value,
        query_starts,
        key_starts,
        max_query,
        max_key,
        hide=hide,
        keep=keep,
        bias=bias,
        causal=causal,
        align=align,
        window=window_list(window),
        scale=scale,
        dropout=dropout,
        seed=seed_tensor(seed, query),
        offset=offset,
    )
    return (output, lse) if return_lse else output


def attention_weights(
    query: Tensor,
    key: Tensor,
    lse: Tensor,
    *,
    hide: Tensor | None = None,
    keep: Tensor | None = None,
    bias: Tensor | None = None,
    query_lengths: Tensor | None = None,
    key_lengths: Tensor | None = None,
    causal: bool = False,
    align: str = "end",
    window: Window | None = None,
    scale: float | None = None,
) -> Tensor:
    """Rebuild the weights of every head from the log-sum-exp `attention` returned.

    Takes (B, H, T_q, T_k) memory. Not differentiable. Masks and scale must be those of the call
    that gave `lse`; dropout is left out.

    Args:
        query: (B, H, T_q, D).
        key: (B, G, T_k, D).
        lse: (B, H, T_q), from `attention(..., return_lse=True)`.
        hide, keep, bias, query_lengths, key_lengths, causal, align, window, scale: as in
            `attention`.

    Returns:
        (B, H, T_q, T_k); rows sum to 1, or are 0 where a row sees nothing.
    """
    return torch.ops.headwise.attention_weights(
        query,
        key,
        lse,
        query_lengths=query_lengths,
        key_lengths=key_lengths,
        hide=hide,
        keep=keep,
        bias=bias,
        causal=causal,
        align=align,
        window=window_list(window),
        scale=scale,
    )


def attention_weights_packed(
    query: Tensor,
    key: Tensor,
    lse: Tensor,
    query_starts: Tensor,
    key_starts: Tensor,
    max_query: int,
    max_key: int,
    *,
    hide: Tensor | None = None,
    keep: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    align: str = "end",
    window: Window | None = None,
    scale: float | None = None,
) -> Tensor:
    """Rebuild the weights of every head of a packed batch; see `attention_weights`.

    Args:
        query: (N_q, H, D).
        key: (N_k, G, D).
        lse: (N_q, H), from `attention_packed(..., return_lse=True)`.
        query_starts, key_starts: (B + 1,).
        max_query, max_key: sizes of the result, at least the longest sequence.
        hide, keep, bias, causal, align, window, scale: as in `attention_packed`.

    Returns:
        (B, H, max_query, max_key), 0 past each sequence's lengths.
    """
    return torch.ops.headwise.attention_weights_packed(
        query,
        key,
        lse,
        query_starts,
        key_starts,
        max_query,
        max_key,
        hide=hide,
        keep=keep,
        bias=bias,
        causal=causal,
        align=align,
        window=window_list(window),
        scale=scale,
    )


def window_list(window: Window | None) -> list[int] | None:
    """Give the dispatcher's form of a window: -1 where there is no bound."""
    return None if window is None else [-1 if side is None else side for side in window]


def seed_tensor(seed: Tensor | int | None, like: Tensor) -> Tensor | None:
    """Give the dispatcher's form of a seed: a 0-dim int64 tensor."""
    if seed is None or isinstance(seed, Tensor):
        return seed
    signed = (seed + 2**63) % 2**64 - 2**63  # the same 64 bits, as int64 holds them
    return torch.tensor(signed, dtype=torch.int64, device=like.device)
