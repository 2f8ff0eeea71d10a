"""Under autocast the op follows scaled_dot_product_attention, and bias keeps its type."""

import itertools

import headwise
import pytest
import torch
import torch.nn.functional as F
from attention_reference import close, inputs

HALVES = [torch.bfloat16, torch.float16]
ERROR = {torch.bfloat16: 2**-7, torch.float16: 2**-10}


def takes(dtype):
    """Whether this build's CPU kernels take a 16-bit type."""
    try:
        headwise.attention(*inputs(dtype=dtype))
    except ValueError as error:
        assert "must be float32" in str(error)
        return False
    return True


def needs(dtype):
    if not takes(dtype):
        pytest.skip(f"the CPU kernels of this build do not take {dtype}")


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the dtypes the op is called with below autocast, and runs it in float32."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = options or {}
        if function.namespace != "headwise":
            return function(*arguments, **options)
        dtypes = [x.dtype for x in arguments if isinstance(x, torch.Tensor)]
        bias = options.get("bias")
        self.calls.append((str(function), dtypes[:3], bias if bias is None else bias.dtype))
        like = dtypes[0]
        wide = [
            x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for x in arguments
        ]
        results = function(*wide, **options)
        if isinstance(results, tuple):
            return results[0].to(like), *results[1:]
        return results


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mixed", [False, True])
def test_query_key_and_value_are_cast_and_bias_is_not(dtype, mixed):
    q, k, v = inputs(dtype=torch.float32)
    if mixed:
        k, v = k.bfloat16(), v.half()
    bias = torch.randn(5, 7)
    starts = [torch.tensor([0, 5]), torch.tensor([0, 7])]
    packed = [x[0].transpose(0, 1) for x in (q, k, v)]
    with Seen() as seen, torch.autocast("cpu", dtype):
        headwise.attention(q, k, v, bias=bias)
        headwise.attention_packed(*packed, *starts, 5, 7, bias=bias)
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    names = ["headwise.attention_forward.default", "headwise.attention_packed_forward.default"]
    assert seen.calls == [(name, [dtype] * 3, torch.float32) for name in names]


@pytest.mark.parametrize("key", ["AutocastCPU", "AutocastCUDA"])
def test_every_op_that_computes_scores_has_a_rule_for_autocast(key):
    for name in ("attention", "attention_packed", "attention_weights", "attention_weights_packed"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"headwise::{name}", key), name


def test_float64_stays_and_a_disabled_region_casts_nothing():
    doubles, floats = inputs(), inputs(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert headwise.attention(*doubles).dtype == torch.float64
        assert F.scaled_dot_product_attention(*doubles, enable_gqa=True).dtype == torch.float64
        with torch.autocast("cpu", enabled=False):
            assert headwise.attention(*floats).dtype == torch.float32
        starts = [torch.tensor([0, 10]), torch.tensor([0, 14])]
        packed = [x.transpose(1, 2).flatten(0, 1) for x in doubles]
        assert headwise.attention_packed(*packed, *starts, 10, 14).dtype == torch.float64
    assert headwise.attention(*floats).dtype == torch.float32


@pytest.mark.parametrize("dtype", HALVES)
def test_values_and_gradients_under_autocast(dtype):
    needs(dtype)
    q, k, v = (x.requires_grad_() for x in inputs(kv_heads=4, dtype=torch.float32))
    bias = torch.randn(1, 4, 5, 7, requires_grad=True)
    with torch.autocast("cpu", dtype):
        output = headwise.attention(q, k, v, bias=bias)
        want = F.scaled_dot_product_attention(q, k, v, bias.to(dtype))
    assert output.dtype == want.dtype == dtype
    close(output.float(), want.float(), 4 * ERROR[dtype])
    incoming = torch.randn(output.shape).to(dtype)
    got = torch.autograd.grad(output, (q, k, v, bias), incoming)  # outside the region
    expected = torch.autograd.grad(want, (q, k, v, bias), incoming)
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() <= 8 * ERROR[dtype] * b.norm()


@pytest.mark.parametrize("dtype", HALVES)
def test_weights_under_autocast_sum_to_one(dtype):
    needs(dtype)
    q, k, v = inputs(dtype=torch.float32)
    with torch.autocast("cpu", dtype):
        _, lse = headwise.attention(q, k, v, return_lse=True)
        weights = headwise.attention_weights(q, k, lse)
    assert lse.dtype == torch.float32
    close(weights.float().sum(-1), torch.ones(2, 4, 5), 4 * ERROR[dtype])


@pytest.mark.parametrize(
    ("compiled", "autocast", "gradient"), list(itertools.product([False, True], repeat=3))
)
def test_compiled_autocast_and_gradient_in_any_combination(compiled, autocast, gradient):
    if autocast:
        needs(torch.bfloat16)
    module = headwise.nn.MultiHeadAttention(12, 3, num_kv_heads=1)
    call = torch.compile(module, fullgraph=True, backend="aot_eager") if compiled else module
    x = torch.randn(2, 5, 12, requires_grad=gradient)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), torch.set_grad_enabled(gradient):
        output = call(x, causal=True)
    want = module(x, causal=True)
    tolerance = 0.05 if autocast else 1e-6
    assert output.dtype == (torch.bfloat16 if autocast else torch.float32)
    assert (output.float() - want).norm() <= tolerance * want.norm()
    if gradient:
        got, expected = (torch.autograd.grad(y.float().sum(), x)[0] for y in (output, want))
        assert got.dtype == torch.float32
        assert (got - expected).norm() <= tolerance * expected.norm()


def test_a_cached_step_under_autocast_keeps_the_caches_type():
    module = headwise.nn.MultiHeadAttention(12, 3).eval()
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 6, 12)
    with torch.no_grad():
        want, cross = module(x, causal=True), module(x, memory)
        cache, source = module.new_cache(rows=2, capacity=4), module.cross_cache(memory)
        with torch.autocast("cpu", torch.bfloat16):
            steps = [module(part, cache=cache) for part in x.split(1, dim=1)]
            across = module.cross_step(x, source, torch.arange(2))
    assert cache.keys.dtype == torch.float32
    for got, expected in ((torch.cat(steps, 1), want), (across, cross)):
        assert (got.float() - expected).norm() <= 0.05 * expected.norm()


def test_mixed_types_outside_autocast_are_refused_by_name():
    q, k, v = inputs(dtype=torch.float32)
    with pytest.raises(ValueError, match=r"key is Double and query is Float"):
        headwise.attention(q, k.double(), v)
    with pytest.raises(ValueError, match=r"value is Half and query is Float"):
        headwise.attention(q, k, v.half())
