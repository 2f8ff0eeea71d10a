"""How `check_masks` hands its masks to each kind of module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.nn import MultiHeadAttention

__all__ = ["Call", "Masks", "adapters_of", "name_of"]


@dataclass(frozen=True)
class Masks:
    """One mask, said twice: as rules, and element by element.

    Attributes:
        causal: row i sees keys j <= i.
        lengths: (B,) real tokens of each sequence, or None: all.
        hide: (B, 1, T, T) bool, True = hidden: both rules together.
    """

    causal: bool
    lengths: Tensor | None
    hide: Tensor


# (module, query, key, value, masks) -> output, or output and weights
Call = Callable[[Any, Tensor, Tensor, Tensor, Masks], Tensor | tuple[Tensor, Tensor]]


def adapters_of(
    module: Any, call: Call | None, width: int | tuple[int, int, int] | None
) -> tuple[dict[str, Call], tuple[int, int, int]]:
    """Give the ways to call a module, by name, and the widths of query, key and value.

    Raises:
        TypeError: as `check_masks` says.
    """
    if call is not None:
        if width is None:
            raise TypeError("check_masks: with call, give width=E or width=(E, kdim, vdim) too")
        return {"": call}, (width,) * 3 if isinstance(width, int) else tuple(width)
    if isinstance(module, MultiHeadAttention):
        layers = (module.q_proj, module.k_proj, module.v_proj)
        calls = {"arguments causal and lengths": _ours_by_rules, "argument hide": _ours_by_hide}
        return calls, tuple(layer.in_features for layer in layers)
    if isinstance(module, torch.nn.MultiheadAttention):
        widths = (module.embed_dim, module.kdim, module.vdim)
        return {"attn_mask and key_padding_mask": _torchs}, widths
    raise TypeError(
        f"check_masks: {name_of(module)} is neither headwise.nn.MultiHeadAttention nor "
        "torch.nn.MultiheadAttention; say with call=... how to apply it (see the docstring)"
    )


def name_of(module: Any) -> str:
    """Name a module or function for a reader."""
    kind = module if hasattr(module, "__qualname__") else type(module)
    return f"{kind.__module__}.{kind.__qualname__}"


def _ours(
    module: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, **masks: Any
) -> tuple[Tensor, Tensor]:
    others = () if key is query and value is query else (key, value)
    output = module(query, *others, **masks)
    return output, module(query, *others, **masks, need_weights=True)[1]


def _ours_by_rules(
    module: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, masks: Masks
) -> tuple[Tensor, Tensor]:
    return _ours(
        module,
        query,
        key,
        value,
        causal=masks.causal,
        align="start",
        key_lengths=masks.lengths,
    )


def _ours_by_hide(
    module: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, masks: Masks
) -> tuple[Tensor, Tensor]:
    return _ours(module, query, key, value, hide=masks.hide)


def _torchs(
    module: torch.nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, masks: Masks
) -> tuple[Tensor, Tensor]:
    length = query.size(1)
    future = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    padded = None
    if masks.lengths is not None:
        padded = torch.arange(length, device=query.device) >= masks.lengths[:, None]
    if not module.batch_first:
        same = key is query and value is query
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        key, value = (query, query) if same else (key, value)  # torch looks for one tensor
    results = [
        module(
            query,
            key,
            value,
            attn_mask=future if masks.causal else None,
            key_padding_mask=padded,
            need_weights=need_weights,
            average_attn_weights=False,
        )
        for need_weights in (False, True)
    ]
    output = results[0][0]
    return output if module.batch_first else output.transpose(0, 1), results[1][1]
