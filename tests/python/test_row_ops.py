"""headwise.residual_norm and activation_dropout against torch's separate ops in float64."""

from collections.abc import Callable

import headwise
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


def leaves(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(sum(map(sum, shapes)))
    made = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [x.to(dtype).requires_grad_() for x in made]


def kept_factors(shape: tuple[int, ...], dropout: float, seed: int, offset: int = 0) -> Tensor:
    """What dropout multiplies with, taken from the op itself: it has no other input here."""
    ones = torch.ones(shape, dtype=torch.float64)
    return headwise.activation_dropout(
        ones, activation="none", dropout=dropout, seed=seed, offset=offset
    )


def norm_inputs(*leading: int, width: int = 24, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return leaves((*leading, width), (*leading, width), (width,), (width,), dtype=dtype)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("used", ["both", "sum", "normed"])
@pytest.mark.parametrize("leading", [(50,), (3, 7), ()])
def test_residual_norm_equals_torch(dropout: float, used: str, leading: tuple[int, ...]) -> None:
    x, branch, weight, bias = inputs = norm_inputs(*leading)
    ours = headwise.residual_norm(x, branch, weight, bias, dropout=dropout, seed=5, offset=2)
    rows = max(1, x.numel() // 24)
    total = x + branch * kept_factors((rows, 24), dropout, 5, 2).view(x.shape)
    theirs = (total, F.layer_norm(total, (24,), weight, bias))

    def loss(sum_: Tensor, normed: Tensor) -> Tensor:
        parts = {"sum": sum_.pow(3).sum(), "normed": normed.pow(3).sum()}
        return sum(parts.values()) if used == "both" else parts[used]

    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    got = torch.autograd.grad(loss(*ours), inputs)
    want = torch.autograd.grad(loss(*theirs), inputs, allow_unused=True)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("activation", ["relu", "none"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("shape", [(40, 33), (2, 5, 16), (9,)])
def test_activation_dropout_equals_torch(
    dropout: float, activation: str, with_bias: bool, shape: tuple[int, ...]
) -> None:
    x, bias = leaves(shape, shape[-1:])
    used = bias if with_bias else None
    ours = headwise.activation_dropout(x, used, activation=activation, dropout=dropout, seed=9)
    shifted = x + bias if with_bias else x
    active = F.relu(shifted) if activation == "relu" else shifted
    rows = x.numel() // shape[-1]
    theirs = active * kept_factors((rows, shape[-1]), dropout, 9).view(shape)
    torch.testing.assert_close(ours, theirs)
    inputs = [x, bias] if with_bias else [x]
    got = torch.autograd.grad(ours.pow(3).sum(), inputs)
    for a, b in zip(got, torch.autograd.grad(theirs.pow(3).sum(), inputs), strict=True):
        torch.testing.assert_close(a, b)


def test_dropout_keeps_the_share_and_the_mean() -> None:
    factors = kept_factors((1000, 300), 0.25, 1)
    kept = factors != 0
    assert abs(kept.double().mean().item() - 0.75) < 0.005
    assert torch.equal(factors[kept].unique(), torch.tensor([4 / 3], dtype=torch.float64))
    # Neither rows nor columns repeat each other, nor does another stream.
    assert kept.unique(dim=0).shape[0] == 1000
    assert kept.unique(dim=1).shape[1] == 300
    assert abs((kept_factors((1000, 300), 0.25, 1, 1).eq(factors)).double().mean() - 0.625) < 0.005


def test_the_default_generator_gives_the_seed() -> None:
    x = torch.ones(4, 64)

    def drawn() -> Tensor:
        return headwise.activation_dropout(x, dropout=0.5)

    torch.manual_seed(3)
    first, second = drawn(), drawn()
    torch.manual_seed(3)
    assert torch.equal(first, drawn())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_precision(dtype: torch.dtype) -> None:
    """As exact as rounding inputs and results once: sums are float32 whatever the inputs are."""
    inputs = norm_inputs(200, width=48, dtype=dtype)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    total, normed = headwise.residual_norm(*inputs)
    exact_total = exact[0] + exact[1]
    exact_normed = F.layer_norm(exact_total, (48,), *exact[2:])
    got = torch.autograd.grad((normed * normed.detach()).sum(), inputs)
    want = torch.autograd.grad((exact_normed * exact_normed.detach()).sum(), exact)
    bound = 8 * torch.finfo(dtype).eps
    pairs = [(total, exact_total), (normed, exact_normed), *zip(got, want, strict=True)]
    for a, b in pairs:
        assert a.dtype == dtype
        assert (a.double() - b).abs().max() <= bound * b.abs().max()


def one_call(name: str) -> tuple[Callable[..., Tensor], list[Tensor]]:
    if name == "residual_norm":
        return (
            lambda *x: headwise.residual_norm(*x, dropout=0.2, seed=torch.tensor(4))[1],
            norm_inputs(6, width=5),
        )
    return (
        lambda *x: headwise.activation_dropout(*x, dropout=0.2, seed=torch.tensor(4)),
        leaves((6, 5), (5,)),
    )


@pytest.mark.parametrize("name", ["residual_norm", "activation_dropout"])
def test_gradcheck_opcheck_compile_and_double_backward(name: str) -> None:
    function, inputs = one_call(name)
    assert torch.autograd.gradcheck(function, inputs)
    rules = {"dropout": 0.2, "seed": torch.tensor(4)}
    for op in (name, f"{name}_forward"):
        torch.library.opcheck(getattr(torch.ops.headwise, op).default, tuple(inputs), rules)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), function(*inputs), rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(function(*inputs).pow(2).sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match=f"{name}: double backward is not supported"):
        gradient.sum().backward()


@pytest.mark.parametrize("name", ["residual_norm", "activation_dropout"])
def test_threads_change_no_bit(name: str) -> None:
    shape = (1500, 96)
    inputs = leaves(shape, shape, (96,), (96,), dtype=torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            if name == "residual_norm":
                y = headwise.residual_norm(*inputs, dropout=0.1, seed=1)[1]
                used = inputs
            else:
                used = [inputs[0], inputs[2]]
                y = headwise.activation_dropout(*used, dropout=0.1, seed=1)
            results.append([y.detach(), *torch.autograd.grad(y.pow(2).sum(), used)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_no_rows() -> None:
    x, weight = torch.zeros(0, 8, requires_grad=True), torch.ones(8, requires_grad=True)
    normed = headwise.residual_norm(x, x, weight, weight)[1]
    y = headwise.activation_dropout(x, weight)
    (normed.sum() + y.sum()).backward()
    assert torch.equal(weight.grad, torch.zeros(8))


NORM = {"x": (4, 8), "branch": (4, 8), "weight": (8,), "bias": (8,)}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"branch": torch.zeros(4, 9)}, ValueError, r"x and branch .N, E.*\[4, 8\] and \[4, 9\]"),
        ({"weight": torch.zeros(9)}, ValueError, r"weight has sizes \[9\].*E = 8"),
        ({"bias": torch.zeros(8, 1)}, ValueError, r"bias has sizes \[8, 1\]"),
        ({"weight": torch.zeros(8).double()}, TypeError, "weight is Double and x Float"),
        ({"branch": torch.zeros(4, 8).half()}, TypeError, "branch is Half and x Float"),
        ({"epsilon": -1.0}, ValueError, "epsilon is -1"),
        ({"dropout": 1.0}, ValueError, "dropout is 1; it must be at least 0 and below 1"),
        ({"offset": -1}, ValueError, "offset is -1"),
        ({"seed": torch.tensor(1.0)}, ValueError, "seed is Float"),
    ],
)
def test_bad_calls(changes: dict, error: type, words: str) -> None:
    call = {**{name: torch.zeros(shape) for name, shape in NORM.items()}, **changes}
    with pytest.raises(error, match=words):
        headwise.residual_norm(**call)


def test_backward_ops_refuse_other_sizes() -> None:
    """Whoever calls them by hand gets an error, not numbers from beyond a tensor."""
    rows, column, ops = torch.zeros(4, 8), torch.zeros(8), torch.ops.headwise
    with pytest.raises(ValueError, match=r"normed_gradient has sizes \[3, 8\]; \[4, 8\]"):
        ops.residual_norm_backward(None, rows[:3], rows, column[:4], column[:4], column)
    with pytest.raises(ValueError, match=r"mean has sizes \[3\]; \[4\] are needed"):
        ops.residual_norm_backward(None, rows, rows, column[:3], column[:4], column)
    with pytest.raises(ValueError, match=r"y and y_gradient have sizes \[3, 8\] and \[4, 8\]"):
        ops.activation_dropout_backward(rows, rows[:3])


def test_bad_activation_calls() -> None:
    x = torch.zeros(4, 8)
    with pytest.raises(ValueError, match='activation is "gelu"; "relu" or "none" is needed'):
        headwise.activation_dropout(x, activation="gelu")
    with pytest.raises(TypeError, match="x is Long"):
        headwise.activation_dropout(x.long())
    with pytest.raises(ValueError, match=r"bias has sizes \[7\]"):
        headwise.activation_dropout(x, torch.zeros(7))
    with pytest.raises(ValueError, match=r"x \(N, F\) is needed"):
        headwise.activation_dropout(torch.tensor(1.0))
