"""Output layer and cross-entropy in one call, without the scores of all rows in memory.

Thin over the dispatcher op `torch.ops.headwise.linear_cross_entropy`.
"""

from typing import Literal

import torch
from torch import Tensor

__all__ = ["linear_cross_entropy"]


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    *,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    row_weight: Tensor | None = None,
    reduction: Literal["mean", "sum"] = "mean",
    bfloat16_products: bool = False,
    consistency: float = 0.0,
) -> Tensor:
    """`cross_entropy(hidden @ weight.T + bias, labels)`, with the gradients made on the way.

    A chunk of rows at a time: its scores, its losses, its gradients; backward only scales them.
    The same bits for every number of threads.

    Args:
        hidden: (..., E) float32, bfloat16, float16 (sums in float32) or float64.
        weight: (V, E), as an embedding's or a `Linear`'s; any of these types, float64 only together
            with float64.
        labels: (...) int64 or int32, 0 to V - 1 or `ignore_index`.
        bias: (V), added to the scores.
        label_smoothing: share of the target spread evenly over all V classes, 0 to 1, as in
            `torch.nn.functional.cross_entropy` (Szegedy et al. 2016).
        ignore_index: rows with this label are left out of loss, gradients and mean.
        row_weight: (...) factors of the rows' losses, one a row (not one a class); no gradient.
        reduction: "sum", or "mean": the sum divided by the weights of the rows that count, by their
            number without `row_weight`; NaN if none counts, as in torch.
        bfloat16_products: round the factors of the products, exponentials of scores included, to
            bfloat16; sums stay float32. With AVX512_BF16 up to twice as fast. Not for float64.
        consistency: R-Drop (Liang et al. 2021). Rows 2n and 2n + 1 are one position under two
            dropouts: hidden (..., 2, E), labels (..., 2). With their predictions p and q a pair
            adds consistency / 2 (KL(p, q) + KL(q, p)), times the mean of both row weights, to the
            sum; nothing where one of them is left out.

    Returns:
        0-dim float32 (float64 for float64). Differentiable once, in hidden, weight and bias.

    Raises:
        ValueError, TypeError, IndexError: naming the argument, what came and what is needed.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(
            f'linear_cross_entropy: reduction is {reduction!r}; "mean" or "sum" is needed'
        )
    if hidden.dim() == 0 or labels.shape != hidden.shape[:-1]:
        raise ValueError(
            f"linear_cross_entropy: hidden has sizes {tuple(hidden.shape)} and labels "
            f"{tuple(labels.shape)}; labels need all sizes of hidden but the last"
        )
    if row_weight is not None and row_weight.shape != labels.shape:
        raise ValueError(
            f"linear_cross_entropy: row_weight has sizes {tuple(row_weight.shape)} and labels "
            f"{tuple(labels.shape)}; they need the same"
        )
    labels = labels.flatten()
    weights = None if row_weight is None else row_weight.flatten()
    loss, _ = torch.ops.headwise.linear_cross_entropy(
        hidden.reshape(-1, hidden.shape[-1]),
        weight,
        labels,
        bias=bias,
        row_weight=weights,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
        bfloat16_products=bfloat16_products,
        consistency=consistency,
    )
    if reduction == "sum":
        return loss
    counted = labels != ignore_index
    total = counted.sum() if weights is None else (weights * counted).sum()
    return loss / total.to(loss.dtype)
