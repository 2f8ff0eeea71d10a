"""Headwise's side of every case, and what the installed build says about itself."""

from pathlib import Path

import headwise
import torch
from torch import Tensor

from bench.cases import Case
from bench.inputs import Inputs
from bench.work import Work, attend

__all__ = ["explain", "library_sizes", "variants"]


def variants(case: Case, inputs: Inputs) -> dict[str, Work]:
    """One form: the call a user would write."""
    build = {"padded": _padded, "packed": _packed, "decode": _decode}[case.form]
    return {"headwise": build(case, inputs)}


def _padded(case: Case, inputs: Inputs) -> Work:
    def function(query: Tensor, key: Tensor, value: Tensor, *bias: Tensor) -> Tensor:
        return headwise.attention(
            query,
            key,
            value,
            hide=inputs.hide,
            bias=bias[0] if bias else None,
            query_lengths=inputs.lengths,
            key_lengths=inputs.lengths,
            causal=case.causal,
            window=(case.window - 1, 0) if case.window else None,
            dropout=case.dropout,
        )

    tensors = [inputs.query, inputs.key, inputs.value]
    if inputs.bias is not None:
        tensors.append(inputs.bias)
    run = attend(function, tensors, inputs.output_gradient if case.backward else None)
    return Work(run, inputs.rows)


def _packed(case: Case, inputs: Inputs) -> Work:
    assert inputs.lengths is not None
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), inputs.lengths.cumsum(0)])
    longest = int(inputs.lengths.max())

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return headwise.attention_packed(
            query, key, value, starts, starts, longest, longest, dropout=case.dropout
        )

    packed = [inputs.rows(x).contiguous() for x in (inputs.query, inputs.key, inputs.value)]
    gradient = inputs.rows(inputs.output_gradient).contiguous() if case.backward else None
    return Work(attend(function, packed, gradient), lambda x: x)


def _decode(case: Case, inputs: Inputs) -> Work:
    lengths = torch.full((case.batch,), case.length)

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return headwise.attention_decode(query, key, value, lengths)

    return Work(attend(function, [inputs.query, inputs.key, inputs.value], None), lambda x: x)


def explain() -> str:
    """Which kernel and instruction set the build uses, as far as it says so."""
    if not hasattr(headwise, "explain"):
        return "this build does not say"
    query, key, value = (torch.zeros(1, 8, 512, 64) for _ in range(3))
    return str(headwise.explain(query, key, value, causal=True)).strip()


def library_sizes() -> dict[str, int]:
    """Bytes of the built libraries, by file name."""
    folder = Path(headwise.__file__).parent
    return {file.name: file.stat().st_size for file in sorted(folder.glob("*.so*"))}
