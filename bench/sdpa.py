"""torch's scaled_dot_product_attention, in every form that is legal for a case.

The fastest one is the baseline. Masks are built outside the timing. This module and what it
imports must run under another torch, without headwise.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.cases import Case
from bench.inputs import Inputs
from bench.work import Work, attend

__all__ = ["forms", "variants"]


def variants(case: Case, inputs: Inputs) -> dict[str, Work]:
    """Every legal form by name."""
    return dict(forms(case, inputs))


def forms(case: Case, inputs: Inputs) -> Iterator[tuple[str, Work]]:
    """Every legal form with its name, each built when it is asked for."""
    for layout, place in _layouts(case):
        tensors = [place(x) for x in (inputs.query, inputs.key, inputs.value)]
        if inputs.bias is not None:
            tensors.append(inputs.bias)
        gradient = place(inputs.output_gradient) if case.backward else None
        for mask_name, options in _masks(case, inputs):
            for heads_name, call in _calls(case):
                run = attend(_bound(call, case, options), tensors, gradient)
                name = ", ".join(x for x in (mask_name, heads_name, layout) if x)
                yield name, Work(run, inputs.rows)


def _bound(call: Callable[..., Tensor], case: Case, options: dict[str, Any]) -> Callable:
    def function(query: Tensor, key: Tensor, value: Tensor, *bias: Tensor) -> Tensor:
        chosen = {"attn_mask": bias[0]} if bias else options
        return call(query, key, value, dropout_p=case.dropout, **chosen)

    return function


def _layouts(case: Case) -> Iterator[tuple[str, Callable[[Tensor], Tensor]]]:
    """Memory of (B, T, heads, width) or (B, heads, T, width); slices can only be taken as given."""
    if case.sliced:
        yield "as given", lambda x: x
        return
    yield "heads first", lambda x: x
    if case.query_length > 1:
        yield "tokens first", lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)


def _masks(case: Case, inputs: Inputs) -> Iterator[tuple[str, dict[str, Any]]]:
    if case.form == "decode" or case.mask == "bias":
        yield "", {}
        return
    only_causal = not (case.window or case.mask or case.shortest)
    if case.causal and only_causal:
        yield "is_causal", {"is_causal": True}
    keep = inputs.keep()
    if keep is None:
        yield "", {}
        return
    yield "bool mask", {"attn_mask": keep}
    added = torch.zeros(keep.shape, dtype=inputs.query.dtype).masked_fill(~keep, -torch.inf)
    yield "added mask", {"attn_mask": added}


def _calls(case: Case) -> Iterator[tuple[str, Callable[..., Tensor]]]:
    """How the function is called; every name stands for the same numbers."""
    if case.against == "folded":
        yield "heads folded into rows", _folded
    elif case.against == "cast":
        yield from ((f"{name}, cast to fp32", _cast(call)) for name, call in _grouped(case))
    else:
        yield from _grouped(case)
        if case.sliced:
            yield "contiguous copy", _copied


def _grouped(case: Case) -> Iterator[tuple[str, Callable[..., Tensor]]]:
    if case.groups == case.heads:
        yield "", F.scaled_dot_product_attention
        return
    yield "enable_gqa", _enable_gqa
    yield "expanded", _expanded


def _enable_gqa(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True, **options)


def _expanded(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    times = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(times, 1) for x in (key, value))
    return F.scaled_dot_product_attention(query, key, value, **options)


def _copied(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    query, key, value = (x.contiguous() for x in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value, **options)


def _folded(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """Queries of one key/value head as rows of one head; right for one query without a mask."""
    rows = query.reshape(key.size(0), key.size(1), -1, query.size(3))
    return F.scaled_dot_product_attention(rows, key, value, **options).reshape(query.shape)


def _cast(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        mask = options.get("attn_mask")
        if mask is not None and mask.is_floating_point():
            options["attn_mask"] = mask.float()
        return call(query.float(), key.float(), value.float(), **options).to(query.dtype)

    return function
