"""What heads do and what a call runs; letters as in `functional`."""

import torch
from torch import Tensor

from headwise._C import statistics_names
from headwise.functional import Window, seed_tensor, window_list

__all__ = [
    "STATISTICS",
    "attention_statistics",
    "attention_statistics_packed",
    "explain",
    "explain_packed",
]

STATISTICS: tuple[str, ...] = tuple(statistics_names())
"""Names of the columns of `attention_statistics`, in order."""


def attention_statistics(
    query: Tensor,
    key: Tensor,
    value: Tensor,
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
    """Measure what every head does: entropy, offsets, first and top column, with and without norms.

    The weights are rebuilt from the log-sum-exp tile by tile, so no (T_q, T_k) memory is needed.
    Dropout is left out. Not differentiable; the same bits for any number of threads.

    >>> output, lse = headwise.attention(q, k, v, causal=True, return_lse=True)
    >>> sums = headwise.attention_statistics(q, k, v, lse, causal=True).sum(0)  # over the batch
    >>> head = dict(zip(headwise.STATISTICS, sums.unbind(-1), strict=True))
    >>> previous_token = head["mass[-1]"] / head["rows_at[-1]"]  # (H,), 1 = looks nowhere else

    Args:
        query: (B, H, T_q, D).
        key: (B, G, T_k, D).
        value: (B, G, T_k, D_v), or (B, H, T_k, D_v) where every query head has values of its own.
            Only the lengths of the vectors are read: to include an output projection, give the
            norms of the projected values as (B, H, T_k, 1).
        lse: (B, H, T_q), from `attention(..., return_lse=True)`.
        hide, keep, bias, query_lengths, key_lengths, causal, align, window, scale: those of the
            call that gave `lse`. With `align`, row i stands at key i + e, as there.

    Returns:
        (B, H, len(STATISTICS)), float32 (float64 for float64). All columns but the two
        `top_column_index` are sums over the rows of a sequence that see a key ("rows"), so sums
        over sequences and batches are exact, and dividing by the named count gives the mean.

        Of the rows, whatever their weights:

        - `rows`: rows that see a key. `rows_with_choice`: that see two or more.
        - `keys`: keys that some row sees.
        - `chance`: 1 / n, n = number of keys the row sees: what one of them gets from uniform
          weights.
        - `rows_at[d]`, d = -8 … 8: rows that see the key at i + e + d.

        Of the weights P, natural units:

        - `entropy`: -Σ_j P log P in nats, / rows. `normalised_entropy`: entropy / log n over rows
          with a choice (the others are left out), / rows_with_choice: 0 one key, 1 uniform.
        - `effective_keys`: exp(entropy), / rows.
        - `largest`: max_j P, / rows: confidence (Voita et al. 2019).
        - `distance`: Σ_j P |j - i - e| in keys, / rows.
        - `misalignment`: |j* / T_k - i / T_q|, j* = argmax_j P (the first of equals) and the
          lengths those of the sequence, / rows: 0 for a monotonic aligner.
        - `first`, `last`: weight of key 0 and of key T_k - 1 of the sequence, / rows.
        - `coverage`: Σ_j min(1, Σ_i P), / keys.
        - `top_column`: max_j Σ_i P, / rows: share of the key that receives the most (an attention
          sink above 0.3: Gu et al. 2024). `top_column_index`: which key (the first of equals), -1
          where no row sees any. Exact below 2**24; not to be summed.
        - `mass[d]`, d = -8 … 8: weight of key i + e + d, / rows_at[d]: mass[0] the diagonal,
          mass[-1] the previous and mass[1] the next token (a share above 0.5: Clark et al. 2019).
        - `top_key[d]`: 1 where j* = i + e + d, / rows: positional heads reach 0.9
          (Voita et al. 2019).

        The same with the prefix `norm_`, of the weights P_ij ‖v_j‖ / Σ_j P_ij ‖v_j‖, which tell
        reading from parking (Kobayashi et al. 2020). A row all of whose values are 0 adds nothing.
    """
    return torch.ops.headwise.attention_statistics(
        query,
        key,
        value,
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


def attention_statistics_packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
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
    """Measure what every head of a packed batch does; see `attention_statistics`.

    Args:
        query: (N_q, H, D).
        key: (N_k, G, D).
        value: (N_k, G, D_v) or (N_k, H, D_v).
        lse: (N_q, H), from `attention_packed(..., return_lse=True)`.
        query_starts, key_starts: (B + 1,).
        max_query, max_key: the longest sequences; hints that never change a result.
        hide, keep, bias, causal, align, window, scale: as in `attention_packed`.

    Returns:
        (B, H, len(STATISTICS)), equal to that of the padded form.
    """
    return torch.ops.headwise.attention_statistics_packed(
        query,
        key,
        value,
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


def explain(
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
) -> str:
    """Tell what `attention` of these arguments would run, forward and backward; runs nothing.

    Args:
        query, key, value, hide, keep, bias, query_lengths, key_lengths, causal, align, window,
            scale, dropout, seed, offset, return_lse: as in `attention`, with the same checks.

    Returns:
        Lines that name the kernel, its instruction set, the sizes of its tiles, how many items
        it cuts the work into, on how many threads and in how much memory, and the active masks.
    """
    return torch.ops.headwise.explain(
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


def explain_packed(
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
) -> str:
    """Tell what `attention_packed` of these arguments would run; see `explain`."""
    return torch.ops.headwise.explain_packed(
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
