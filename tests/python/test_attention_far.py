"""Tensors whose parts lie more than 2^31 elements apart: offsets need 64 bits."""

import headwise
import pytest
import torch
from torch import Tensor

FAR = 2**31 + 64


@pytest.fixture(scope="module")
def base() -> Tensor:
    """8 GiB of address space, of which a few pages are ever touched."""
    try:
        return torch.empty(FAR + 4096)
    except RuntimeError as error:
        pytest.skip(f"no address space for a tensor of 2^31 elements: {error}")


def far_apart(base: Tensor, near: Tensor, offset: int) -> Tensor:
    """The same (2, heads, rows, width) numbers with the two sequences 2^31 elements apart."""
    rows, width = near.shape[-2:]
    strides = (FAR, rows * width, width, 1)
    return base.as_strided(near.shape, strides, offset).copy_(near)


def test_forward_and_backward(base: Tensor) -> None:
    near = [torch.randn(2, heads, 5, 8) for heads in (4, 2, 2, 4)]
    far = [far_apart(base, x, 512 * i) for i, x in enumerate(near)]
    results = []
    for query, key, value, gradient in (near, far):
        leaves = [x.detach().requires_grad_() for x in (query, key, value)]
        output = headwise.attention(*leaves, causal=True, dropout=0.3, seed=7)
        results.append([output, *torch.autograd.grad(output, leaves, gradient)])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_decoding(base: Tensor) -> None:
    key, value = torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    query, lengths = torch.randn(2, 4, 1, 8), torch.tensor([6, 4])
    expected = headwise.attention_decode(query, key, value, lengths)
    caches = [far_apart(base, x, 2048 + 512 * i) for i, x in enumerate((key, value))]
    assert torch.equal(headwise.attention_decode(query, *caches, lengths), expected)
