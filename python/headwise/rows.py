"""What stands between the products of a Transformer layer, each in one pass over the tokens.

Thin over the dispatcher ops `torch.ops.headwise.residual_norm` and `activation_dropout`.
"""

from typing import Literal

import torch
from torch import Tensor

from headwise.functional import seed_tensor

__all__ = ["activation_dropout", "residual_norm"]


def residual_norm(
    x: Tensor,
    branch: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    dropout: float = 0.0,
    seed: Tensor | int | None = None,
    offset: int = 0,
) -> tuple[Tensor, Tensor]:
    """`s = x + dropout(branch)` and `layer_norm(s, weight, bias)` (Ba et al. 2016).

    The same bits for every number of threads.

    Args:
        x: (..., E) float32, bfloat16, float16 (sums in float32) or float64.
        branch: as x.
        weight, bias: (E), of any of these types, float64 only together with float64.
        epsilon: added to the variance.
        dropout: probability, 0 <= dropout < 1, of dropping a number of branch; the rest is scaled
            up. Always active: pass 0 when not training.
        seed: 0-dim int64 tensor or int (mod 2**64): same seed and offset, same dropped numbers.
            Drawn from torch's default generator when dropout > 0 and none is given.
        offset: another stream of the same seed, 0 <= offset < 2**32.

    Returns:
        The sum and its norm, both (..., E) and differentiable once.

    Raises:
        ValueError, TypeError: naming the argument, what came and what is needed.
    """
    rows = x.reshape(-1, x.shape[-1]) if x.dim() > 0 else x
    total, normed = torch.ops.headwise.residual_norm(
        rows,
        branch.reshape(rows.shape) if branch.shape == x.shape else branch,
        weight,
        bias,
        epsilon=epsilon,
        dropout=dropout,
        seed=seed_tensor(seed, x),
        offset=offset,
    )
    return total.reshape(x.shape), normed.reshape(x.shape)


def activation_dropout(
    x: Tensor,
    bias: Tensor | None = None,
    *,
    activation: Literal["relu", "none"] = "relu",
    dropout: float = 0.0,
    seed: Tensor | int | None = None,
    offset: int = 0,
) -> Tensor:
    """`dropout(activation(x + bias))`; the same bits for every number of threads.

    Args:
        x: (..., F) float32, bfloat16, float16 (sums in float32) or float64.
        bias: (F), of any of these types, float64 only together with float64.
        activation: "relu" or "none".
        dropout, seed, offset: as in `residual_norm`.

    Returns:
        (..., F), differentiable once. ReLU's gradient at 0 is 0.

    Raises:
        ValueError, TypeError: naming the argument, what came and what is needed.
    """
    rows = x.reshape(-1, x.shape[-1]) if x.dim() > 0 else x
    y = torch.ops.headwise.activation_dropout(
        rows,
        bias,
        activation=activation,
        dropout=dropout,
        seed=seed_tensor(seed, x),
        offset=offset,
    )
    return y.reshape(x.shape)
