"""torch.compile traces op and module whole: dynamic shapes, changing seeds, every layout."""

import headwise
import pytest
import torch
from attention_reference import close, inputs
from torch._dynamo.testing import CompileCounterWithBackend


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()


def counted(function, **options):
    """Compiled without graph breaks, and the counter of its compilations."""
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, fullgraph=True, backend=counter, **options), counter


@pytest.mark.parametrize("training", [False, True])
def test_one_graph_serves_every_length_and_batch(training):
    module = headwise.nn.MultiHeadAttention(12, 4, num_kv_heads=2).train(training)

    def call(x, memory, lengths):
        return module(module(x, causal=True), memory, key_lengths=lengths)

    compiled, counter = counted(call, dynamic=True)
    after_first = None
    for batch, queries, keys in ((2, 5, 7), (3, 6, 17), (2, 64, 5), (7, 17, 64)):
        x = torch.randn(batch, queries, 12, requires_grad=training)
        memory, lengths = torch.randn(batch, keys, 12), torch.randint(keys + 1, (batch,))
        got, want = compiled(x, memory, lengths), call(x, memory, lengths)
        close(got, want, 1e-5)
        if training:
            gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (got, want)]
            close(*gradients, 1e-4)
        after_first = after_first or counter.frame_count  # torch may begin the first one twice
    assert counter.frame_count == after_first


def test_seeds_that_change_compile_once_and_repeat():
    q, k, v = inputs()

    def call(q, seed):
        return headwise.attention(q, k, v, dropout=0.5, seed=seed)

    compiled, counter = counted(call)
    seeds = [torch.tensor(seed) for seed in (3, 4, 2**40, -1)]
    for seed in seeds:
        assert torch.equal(compiled(q, seed), call(q, seed))
    assert counter.frame_count == 1
    compiled, counter = counted(call)
    for seed in (3, 4, 5, 6):
        assert torch.equal(compiled(q, seed), call(q, seed))
    assert counter.frame_count <= 2  # the first number is taken for a constant


def test_dropout_without_a_seed_draws_anew_at_every_compiled_call():
    q, k, v = inputs()
    compiled, counter = counted(lambda q: headwise.attention(q, k, v, dropout=0.5))
    torch.manual_seed(1)
    first, second = compiled(q), compiled(q)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(first, compiled(q))
    torch.manual_seed(1)
    assert torch.equal(first, headwise.attention(q, k, v, dropout=0.5))
    assert counter.frame_count == 1


def test_forward_and_backward_of_a_compiled_call_drop_the_same():
    q, k, v = (x.requires_grad_() for x in inputs())
    compiled, _ = counted(lambda q, k, v: headwise.attention(q, k, v, dropout=0.5))
    torch.manual_seed(2)
    got = torch.autograd.grad(compiled(q, k, v).pow(2).sum(), (q, k, v))
    torch.manual_seed(2)
    want = torch.autograd.grad(headwise.attention(q, k, v, dropout=0.5).pow(2).sum(), (q, k, v))
    for a, b in zip(got, want, strict=True):
        close(a, b)


def test_everything_else_compiles_too():
    q, k, v = inputs(queries=7)
    lengths = torch.tensor([7, 3])
    hide, bias = torch.rand(2, 1, 7, 7) < 0.3, torch.randn(7, 7, dtype=q.dtype)
    rows = [x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    starts = torch.tensor([0, 5, 14])

    def call(q, k, v):
        padded, lse = headwise.attention(
            q,
            k,
            v,
            hide=hide,
            bias=bias,
            query_lengths=lengths,
            key_lengths=lengths,
            causal=True,
            window=(3, None),
            return_lse=True,
        )
        whole, whole_lse = headwise.attention(q, k, v, return_lse=True)
        weights = headwise.attention_weights(q, k, whole_lse)
        packed = headwise.attention_packed(*rows, starts, starts, 9, 9, window=(2, 2))
        keys, values = torch.zeros_like(k), torch.zeros_like(v)
        headwise.cache_append(keys, values, k, v, torch.zeros(2, dtype=torch.int64))
        step = headwise.attention_decode(q[:, :, :2], keys, values, lengths)
        drop_in = headwise.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return padded, lse, whole, weights, packed, step, drop_in

    compiled, counter = counted(call)
    for got, want in zip(compiled(q, k, v), call(q, k, v), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
    assert counter.frame_count == 1


def test_export_keeps_a_dynamic_length():
    module = headwise.nn.MultiHeadAttention(12, 4).eval()
    length = torch.export.Dim("length", min=2, max=100)
    program = torch.export.export(
        module, (torch.randn(2, 5, 12),), {"causal": True}, dynamic_shapes=None
    )
    assert "headwise" in str(program.graph)

    class Causal(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = module

        def forward(self, x):
            return self.attention(x, causal=True)

    program = torch.export.export(
        Causal(), (torch.randn(2, 5, 12),), dynamic_shapes={"x": {1: length}}
    )
    for tokens in (2, 6, 64):
        x = torch.randn(2, tokens, 12)
        close(program.module()(x), module(x, causal=True), 1e-6)


LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "sliced": lambda x: torch.cat([x, x], -1)[..., : x.size(-1)],
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("gradient", [False, True])
def test_opcheck_of_every_op(layout, gradient):
    lay = LAYOUTS[layout]
    q, k, v = (lay(x) for x in inputs(queries=7, dtype=torch.float32))
    packed = [lay(x.transpose(1, 2).flatten(0, 1)[:, :, None])[:, :, 0] for x in (q, k, v)]
    bias = torch.randn(7, 7)
    for x in (q, k, v, bias, *packed):
        x.requires_grad_(gradient)
    lengths, starts = torch.tensor([7, 2]), torch.tensor([0, 4, 14])
    rules = {"bias": bias, "causal": True, "dropout": 0.2, "seed": torch.tensor(4)}
    both = {"query_lengths": lengths, "key_lengths": lengths}
    ops = torch.ops.headwise
    check(ops.attention, (q, k, v), {**rules, **both})
    check(ops.attention_forward, (q, k, v), {**rules, **both})
    check(ops.attention_packed, (*packed, starts, starts, 10, 10), rules | {"bias": None})
    q, k, v = (x.detach() for x in (q, k, v))
    output, lse = headwise.attention(q, k, v, return_lse=True)
    check(ops.attention_weights, (q, k, lse), {"causal": True})
    known = {"query": q, "key": k, "value": v, "output": output, "lse": lse}
    known |= {"output_gradient": torch.randn_like(output), "lse_gradient": torch.randn_like(lse)}
    schema = ops.attention_backward.default._schema
    names = [argument.name for argument in schema.arguments if not argument.has_default_value()]
    check(ops.attention_backward, tuple(known.get(name, False) for name in names), {})
    check(ops.attention_decode, (q[:, :, :3], k, v, torch.tensor([7, 3])), {})


def check(op, arguments, options):
    torch.library.opcheck(op.default, arguments, options)


@pytest.mark.parametrize("size", [(0, 5, 7), (2, 0, 7), (2, 5, 0), (1, 1, 1)])
def test_fake_and_real_agree_on_empty_sizes(size):
    batch, queries, keys = size
    real = inputs(batch=batch, queries=queries, keys=keys, dtype=torch.float32)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in real]

    def run(tensors):
        q, k, v = (x.detach().requires_grad_() for x in tensors)
        output, lse = headwise.attention(q, k, v, return_lse=True)
        return [output, lse, *torch.autograd.grad(output.sum() + lse.sum(), (q, k, v))]

    with mode:
        expected = run(fake)
    for a, b in zip(run(real), expected, strict=True):
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


@pytest.mark.parametrize("form", ["lengths", "hide", "window", "packed"])
def test_gradcheck_of_every_mask(form):
    q, k, v = (x.requires_grad_() for x in inputs(queries=4, keys=4, width=2))
    lengths = torch.tensor([4, 2])
    rules = {
        "lengths": {"query_lengths": lengths, "key_lengths": lengths, "causal": True},
        "hide": {"hide": torch.rand(2, 1, 4, 4) < 0.4},
        "window": {"window": (1, 0), "scale": 0.7},
    }
    if form != "packed":
        call = lambda q, k, v: headwise.attention(q, k, v, return_lse=True, **rules[form])  # noqa: E731
    else:
        starts = torch.tensor([0, 3, 8])

        def call(q, k, v):
            packed = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
            return headwise.attention_packed(*packed, starts, starts, 5, 5, causal=True)

    def finite(*tensors):
        results = call(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        return [x.masked_fill(~x.isfinite(), 0.0) for x in results]

    assert torch.autograd.gradcheck(finite, (q, k, v))
