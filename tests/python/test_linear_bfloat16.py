"""linear_bfloat16 against torch in float64 on factors rounded to bfloat16."""

import headwise  # noqa: F401 (registers the op)
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

OP = torch.ops.headwise.linear_bfloat16


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def layers(
    rows: int = 70, width: int = 64, heights: tuple[int, ...] = (64, 32, 96)
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    weights = [numbers(height, width, seed=n) for n, height in enumerate(heights)]
    biases = [numbers(height, seed=n) for n, height in enumerate(heights)]
    for tensor in (x := numbers(rows, width), *weights, *biases):
        tensor.requires_grad_()
    return x, weights, biases


class RoundedProduct(torch.autograd.Function):
    """x weight^T in float64, every factor rounded to bfloat16 before, backward too."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        x, weight = (t.bfloat16().double() for t in (x, weight))
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        gradient = gradient.float().bfloat16().double()
        return (gradient @ weight).float(), (gradient.T @ x).float()


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("heights", [(32,), (64, 64), (64, 32, 96)])
def test_equals_torch_on_rounded_factors(heights: tuple[int, ...], with_bias: bool) -> None:
    x, weights, biases = layers(heights=heights)
    used = biases if with_bias else []
    ours = OP(x, weights, used)
    theirs = [RoundedProduct.apply(x, weight) for weight in weights]
    if with_bias:
        theirs = [y + bias for y, bias in zip(theirs, biases, strict=True)]
    leaves = [x, *weights, *used]
    gradients = [numbers(*y.shape, seed=9) for y in ours]
    got = torch.autograd.grad(ours, leaves, gradients)
    want = torch.autograd.grad(theirs, leaves, [g.double() for g in gradients])
    for a, b in zip([*ours, *got], [*theirs, *want], strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-5, atol=2e-5)


def test_a_layer_that_nobody_uses_gets_zeros() -> None:
    x, weights, biases = layers()
    got = torch.autograd.grad(OP(x, weights, biases)[1].sum(), [x, *weights])
    assert not got[1].any()
    assert not got[3].any()
    assert got[2].any()


def test_an_input_without_gradient_gets_none() -> None:
    x, weights, biases = layers()
    OP(x.detach(), weights, biases)[0].sum().backward()
    assert weights[0].grad is not None
    assert x.grad is None


def test_strided_inputs() -> None:
    x, weights, biases = layers()
    spread = torch.stack([x, x], -1).flatten(1)[:, ::2]
    for a, b in zip(OP(x, weights, biases), OP(spread, weights, biases), strict=True):
        assert torch.equal(a, b)


def test_threads_change_no_bit() -> None:
    x, weights, biases = layers(rows=2000)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        ys = OP(x, weights, biases)
        total = sum(y.square().sum() for y in ys)
        results.append([*ys, *torch.autograd.grad(total, [x, *weights, *biases])])
    torch.set_num_threads(before)
    for others in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], others, strict=True))


def test_opcheck() -> None:
    torch.library.opcheck(OP, layers())


def test_double_backward_is_refused() -> None:
    x, weights, biases = layers()
    (gradient,) = torch.autograd.grad(OP(x, weights, biases)[0].pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, w, b: (x.double(), w, b), "x is Double; float32 is needed"),
        (lambda x, w, b: (x[0], w, b), "x needs two axes"),
        (lambda x, w, b: (x[:, :40], [w[0][:, :40]], []), "width of x is 40; a multiple of 32"),
        (lambda x, w, b: (x, [], []), "0 weights came"),
        (lambda x, w, b: (x, w * 2, []), "6 weights came"),
        (lambda x, w, b: (x, [w[0][:, :32]], []), r"\[64, 32\]; \(J, E\) is needed with E = 64"),
        (lambda x, w, b: (x, [w[0][:40]], []), "height of a weight is 40"),
        (lambda x, w, b: (x, w, b[:1]), "1 biases came"),
        (lambda x, w, b: (x, w, b[::-1]), r"\(J\) is needed with J = 64"),
    ],
)
def test_bad_calls_are_named(change, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        OP(*change(*layers()))
