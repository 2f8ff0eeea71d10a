"""The op as Python sees it, against torch and a plain float64 formula."""

import inspect
import itertools
import math
import subprocess
import sys

import headwise
import pytest
import torch
import torch.nn.functional as F

OPS = torch.ops.headwise


def inputs(batch=2, heads=4, kv_heads=2, queries=5, keys=7, width=8, dtype=torch.float64):
    def random(h, t):
        return torch.randn(batch, h, t, width, dtype=dtype)

    return random(heads, queries), random(kv_heads, keys), random(kv_heads, keys)


def plain(q, k, v, hidden=None, bias=None, scale=None):
    """(output, weights) in float64; rows that see nothing are 0."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.size(1) // k.size(1), 1) for x in (k, v))
    scores = q @ k.mT * (1 / math.sqrt(q.size(-1)) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


def close(got, want, tolerance=1e-11):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def causal_mask(queries, keys, align="end"):
    shift = keys - queries if align == "end" else 0
    return torch.arange(keys) > torch.arange(queries)[:, None] + shift


# ---- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_equals_sdpa_and_the_plain_formula(kv_heads):
    q, k, v = inputs(kv_heads=kv_heads)
    got = headwise.attention(q, k, v)
    close(got, plain(q, k, v)[0])
    close(got, F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    single = [x.float() for x in (q, k, v)]
    close(headwise.attention(*single), plain(q, k, v)[0].float(), 1e-5)


@pytest.mark.parametrize(("queries", "keys"), [(1, 8), (3, 8), (5, 2), (5, 5)])
@pytest.mark.parametrize("align", ["end", "start"])
def test_causal_alignment(queries, keys, align):
    q, k, v = inputs(queries=queries, keys=keys)
    got = headwise.attention(q, k, v, causal=True, align=align)
    close(got, plain(q, k, v, causal_mask(queries, keys, align))[0])


@pytest.mark.parametrize(
    "shape", [(5, 7), (1, 1, 5, 7), (2, 1, 1, 7), (2, 1, 5, 7), (1, 4, 5, 7), (2, 4, 5, 7)]
)
def test_masks_broadcast(shape):
    q, k, v = inputs()
    hide = torch.rand(shape) < 0.4
    want = plain(q, k, v, hide)[0]
    close(headwise.attention(q, k, v, hide=hide), want)
    close(headwise.attention(q, k, v, keep=~hide), want)
    close(headwise.attention(q, k, v, hide=hide.expand(2, 4, 5, 7)), want)
    minus_infinity = torch.zeros(shape, dtype=q.dtype).masked_fill(hide, -math.inf)
    close(headwise.attention(q, k, v, bias=minus_infinity), want)


@pytest.mark.parametrize("shape", [(2, 7), (7, 5), (2, 4, 5, 1, 1), (2, 5, 7), (3, 1, 5, 7)])
def test_masks_of_wrong_shape_are_refused(shape):
    with pytest.raises((RuntimeError, ValueError), match="hide"):
        headwise.attention(*inputs(), hide=torch.zeros(shape, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
def test_only_bool_hides(dtype):
    with pytest.raises((RuntimeError, ValueError), match="hide"):
        headwise.attention(*inputs(), hide=torch.zeros(5, 7, dtype=dtype))


def test_all_rules_at_once():
    q, k, v = inputs(queries=7)
    lengths = torch.tensor([7, 4])
    hide, bias = torch.rand(2, 1, 7, 7) < 0.2, torch.randn(1, 4, 7, 7, dtype=torch.float64)
    past = torch.arange(7) >= lengths[:, None]
    distance = torch.arange(7) - torch.arange(7)[:, None]
    hidden = hide | past[:, None, None, :] | past[:, None, :, None] | (distance > 0)
    hidden = hidden | (distance < -3)
    got = headwise.attention(
        q,
        k,
        v,
        hide=hide,
        bias=bias,
        query_lengths=lengths,
        key_lengths=lengths,
        causal=True,
        window=(3, None),
        scale=0.3,
    )
    close(got, plain(q, k, v, hidden, bias, 0.3)[0])


def test_rows_without_keys_are_zero_and_do_no_harm():
    q, k, v = (x.requires_grad_() for x in inputs())
    hide = torch.zeros(5, 7, dtype=torch.bool)
    hide[2] = True
    output, lse = headwise.attention(q, k, v, hide=hide, return_lse=True)
    assert (output[:, :, 2] == 0).all()
    assert (lse[:, :, 2] == -math.inf).all()
    output.sum().backward()
    assert (q.grad[:, :, 2] == 0).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


def test_lse_and_weights():
    q, k, v = inputs(queries=7)
    rules = {"causal": True, "key_lengths": torch.tensor([7, 3])}
    rules["query_lengths"] = rules["key_lengths"]
    output, lse = headwise.attention(q, k, v, return_lse=True, **rules)
    weights = headwise.attention_weights(q, k, lse, **rules)
    past = torch.arange(7) >= rules["key_lengths"][:, None]
    hidden = causal_mask(7, 7) | past[:, None, None, :] | past[:, None, :, None]
    close(weights, plain(q, k, v, hidden)[1])
    assert (weights.masked_select(hidden.expand_as(weights)) == 0).all()
    close(weights @ v.repeat_interleave(2, 1), output)


def test_heads_merge_without_a_copy():
    output = headwise.attention(*inputs())
    merged = output.transpose(1, 2).flatten(2)
    assert merged.data_ptr() == output.data_ptr()
    assert merged.is_contiguous()


def test_packed_equals_padded():
    query_lengths, key_lengths = [3, 0, 5], [4, 2, 6]
    q, k, v = inputs(batch=3, queries=5, keys=6)
    padded, lse = headwise.attention(
        q,
        k,
        v,
        query_lengths=torch.tensor(query_lengths),
        key_lengths=torch.tensor(key_lengths),
        causal=True,
        dropout=0.3,
        seed=5,
        return_lse=True,
    )

    def pack(x, lengths):
        return torch.cat([row[:, :n].transpose(0, 1) for row, n in zip(x, lengths, strict=True)])

    def starts(lengths):
        return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)

    where = (starts(query_lengths), starts(key_lengths), 5, 6)
    packed_q, packed_k = pack(q, query_lengths), pack(k, key_lengths)
    packed, packed_lse = headwise.attention_packed(
        packed_q,
        packed_k,
        pack(v, key_lengths),
        *where,
        causal=True,
        dropout=0.3,
        seed=5,
        return_lse=True,
    )
    close(packed, pack(padded, query_lengths))
    close(packed_lse, pack(lse[..., None], query_lengths)[..., 0])
    weights = headwise.attention_weights_packed(packed_q, packed_k, packed_lse, *where, causal=True)
    close(weights[2, :, :5, :6], plain(q, k, v, causal_mask(5, 6))[1][2])


def test_decode_with_cache_equals_attention_at_once():
    q, k, v = inputs(queries=9, keys=9)
    want = headwise.attention(q, k, v, causal=True)
    key_cache, value_cache = torch.zeros(2, 2, 12, 8).double(), torch.zeros(2, 2, 12, 8).double()
    begin = 0
    for end in (3, 4, 9):
        headwise.cache_append(
            key_cache, value_cache, k[:, :, begin:end], v[:, :, begin:end], torch.full((2,), begin)
        )
        lengths = torch.full((2,), end)
        got = headwise.attention_decode(q[:, :, begin:end], key_cache, value_cache, lengths)
        close(got, want[:, :, begin:end])
        begin = end
    before = key_cache.clone()
    with pytest.raises((RuntimeError, ValueError), match="lengths"):
        headwise.cache_append(
            key_cache, value_cache, k[:, :, :4], v[:, :, :4], torch.tensor([9, 9])
        )
    assert torch.equal(key_cache, before)


# ---- dropout ---------------------------------------------------------------------------------


def test_dropout_repeats_with_its_seed_and_differs_without():
    q, k, v = inputs()

    def run(**arguments):
        return headwise.attention(q, k, v, dropout=0.5, **arguments)

    assert torch.equal(run(seed=7), run(seed=torch.tensor(7)))
    assert torch.equal(run(seed=-1), run(seed=2**64 - 1))
    assert not torch.equal(run(seed=7), run(seed=8))
    assert not torch.equal(run(seed=7), run(seed=7, offset=1))
    torch.manual_seed(1)
    first, second = run(), run()
    torch.manual_seed(1)
    assert torch.equal(first, run())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 2.0])
def test_dropout_outside_its_range_is_refused(dropout):
    with pytest.raises((RuntimeError, ValueError), match="dropout"):
        headwise.attention(*inputs(), dropout=dropout)


# ---- gradients -------------------------------------------------------------------------------


def test_gradcheck():
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, queries=3, keys=4, width=3))
    bias = torch.randn(1, 4, 1, 4, dtype=torch.float64, requires_grad=True)

    def call(q, k, v, bias):
        return headwise.attention(
            q, k, v, bias=bias, causal=True, dropout=0.2, seed=3, return_lse=True
        )

    assert torch.autograd.gradcheck(call, (q, k, v, bias))


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (3,), (0, 1, 2, 3)])
def test_a_gradient_for_each_input_that_wants_one(which):
    tensors = [*inputs(), torch.randn(5, 7, dtype=torch.float64)]
    for i in which:
        tensors[i].requires_grad_()
    q, k, v, bias = tensors
    headwise.attention(q, k, v, bias=bias).pow(2).sum().backward()
    for i, tensor in enumerate(tensors):
        assert (tensor.grad is not None) == (i in which)
        assert tensor.grad is None or tensor.grad.abs().max() > 0


def test_grouped_gradients_are_summed():
    q, k, v = (x.requires_grad_() for x in inputs(heads=8, kv_heads=2))
    output = headwise.attention(q, k, v)
    got = torch.autograd.grad(output.pow(2).sum(), (q, k, v))
    want = torch.autograd.grad(plain(q, k, v)[0].pow(2).sum(), (q, k, v))
    for a, b in zip(got, want, strict=True):
        close(a, b)


def test_the_incoming_gradient_may_have_any_strides():
    q, k, v = (x.requires_grad_() for x in inputs())

    def gradients(through):
        return torch.autograd.grad(through(headwise.attention(q, k, v)), (q, k, v))

    ones = gradients(lambda x: (x * torch.ones_like(x)).sum())
    for through in (
        lambda x: x.sum(),
        lambda x: torch.cat([x, x.detach()], -1).sum(),
        lambda x: x.transpose(1, 3).contiguous().sum(),
    ):
        for a, b in zip(ones, gradients(through), strict=True):
            assert torch.equal(a, b)


def test_double_backward_raises():
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, queries=3, keys=3, width=2))
    output = headwise.attention(q, k, v)
    (gradient,) = torch.autograd.grad(output.sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.pow(2).sum().backward()


# ---- registration ----------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
def test_opcheck(transposed):
    q, k, v = inputs(dtype=torch.float32)
    if transposed:
        q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    for x in (q, k, v):
        x.requires_grad_()
    rules = {"hide": torch.rand(5, 7) < 0.3, "dropout": 0.2, "seed": torch.tensor(4)}
    torch.library.opcheck(OPS.attention_forward.default, (q, k, v), rules)
    _, lse = headwise.attention(q, k, v, return_lse=True)
    plain_inputs = (q.detach(), k.detach(), lse.detach())
    torch.library.opcheck(OPS.attention_weights.default, plain_inputs, {"causal": True})


def test_defaults_of_python_and_schema_agree():
    for name in set(headwise.__all__) - {"nn", "scaled_dot_product_attention"}:
        parameters = inspect.signature(getattr(headwise, name)).parameters
        schema = getattr(OPS, name).default._schema
        arguments = {argument.name: argument for argument in schema.arguments}
        assert set(parameters) - {"return_lse"} == set(arguments)
        for key, argument in arguments.items():
            if argument.has_default_value():
                assert parameters[key].default == argument.default_value, (name, key)
            else:
                assert parameters[key].default is inspect.Parameter.empty, (name, key)


def test_every_argument_by_name_under_fake_tensors():
    q, k, v = inputs(dtype=torch.float32)
    everything = {
        "hide": torch.zeros(5, 7, dtype=torch.bool),
        "bias": torch.zeros(5, 7),
        "query_lengths": torch.tensor([5, 5]),
        "key_lengths": torch.tensor([7, 7]),
        "causal": True,
        "align": "start",
        "window": (3, -1),
        "scale": 0.5,
        "dropout": 0.1,
        "seed": torch.tensor(3),
        "offset": 2,
        "return_lse": True,
    }
    real = headwise.attention(q, k, v, **everything)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        q, k, v = (mode.from_tensor(x) for x in (q, k, v))
        fake = headwise.attention(q, k, v, **everything)
    for a, b in zip(real, fake, strict=True):
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


def in_new_process(code, folder):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def test_import_alone_in_a_new_process(tmp_path):
    code = "import headwise; print(headwise.attention.__module__)"
    result = in_new_process(code, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "headwise.functional"


def test_another_torch_is_refused_in_one_sentence(tmp_path):
    result = in_new_process("import torch; torch.__version__ = '2.0.1'; import headwise", tmp_path)
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: headwise")
    assert "2.0.1" in last
    assert torch.__version__ in last


def test_loading_the_library_twice_is_harmless(tmp_path):
    code = (
        "import headwise, torch, pathlib;"
        "folder = pathlib.Path(headwise.__file__).parent;"
        "torch.ops.load_library(str(folder / 'libheadwise_ops.so'))"
    )
    result = in_new_process(code, tmp_path)
    assert result.returncode == 0, result.stderr


# ---- drop-in and module ----------------------------------------------------------------------


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 2, 3)])
def test_drop_in_equals_torch_for_any_leading_axes(lead):
    q = torch.randn(*lead, 5, 8)
    k, v = torch.randn(*lead, 7, 8), torch.randn(*lead, 7, 6)
    keep = torch.rand(5, 7) < 0.8
    for arguments in (
        {},
        {"is_causal": True},
        {"attn_mask": keep},
        {"attn_mask": torch.randn(*lead, 5, 7), "scale": 0.2},
    ):
        got = headwise.scaled_dot_product_attention(q, k, v, **arguments)
        close(got, F.scaled_dot_product_attention(q, k, v, **arguments), 1e-5)


def test_drop_in_has_torchs_signature_and_limits():
    q, k, v = inputs(dtype=torch.float32)
    names = list(inspect.signature(headwise.scaled_dot_product_attention).parameters)
    documented = F.scaled_dot_product_attention.__doc__.split(")")[0]
    assert all(name in documented for name in names)
    got = headwise.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    close(got, F.scaled_dot_product_attention(q, k, v, enable_gqa=True), 1e-5)
    with pytest.raises(ValueError, match="4, 2 and 2"):
        headwise.scaled_dot_product_attention(q, k, v)
    with pytest.raises(ValueError, match="is_causal"):
        mask = torch.ones(5, 7, dtype=torch.bool)
        headwise.scaled_dot_product_attention(q, k, v, mask, is_causal=True, enable_gqa=True)


def test_module_equals_torchs_module():
    ours = headwise.nn.MultiHeadAttention(24, 4).double()
    theirs = torch.nn.MultiheadAttention(24, 4, batch_first=True).double()
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.uniform_(-0.5, 0.5)
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
        theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    x, memory = torch.randn(2, 5, 24).double(), torch.randn(2, 7, 24).double()
    output, weights = ours(x, memory, need_weights=True)
    want, want_weights = theirs(x, memory, memory, average_attn_weights=False)
    close(output, want)
    close(weights, want_weights)
    assert torch.equal(output, ours(x, memory))


def test_module_steps_equal_the_whole_at_once():
    module = headwise.nn.MultiHeadAttention(12, 6, num_kv_heads=2).double().eval()
    x = torch.randn(3, 12, 12).double()
    with torch.no_grad():
        want = module(x, causal=True)
        for chunks in ([12], [1] * 12, [3, 1, 8]):
            cache = module.new_cache(rows=3, capacity=12)
            got = [module(part, cache=cache) for part in x.split(chunks, dim=1)]
            close(torch.cat(got, 1), want)
        assert cache.length == cache.capacity == 12
        with pytest.raises(ValueError, match="12"):
            module(x[:, :1], cache=cache)
        cache = module.new_cache(rows=3, capacity=12)
        module(x[:, :4], cache=cache)
        cache.reorder(torch.tensor([2, 0]))
        close(module(x[[2, 0], 4:5], cache=cache), want[[2, 0], 4:5])


def test_module_drops_only_in_training():
    module = headwise.nn.MultiHeadAttention(12, 3, dropout=0.5)
    x = torch.randn(2, 5, 12)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ({"embed_dim": 10, "num_heads": 4}, ["10", "4"]),
        ({"embed_dim": 12, "num_heads": 3, "num_kv_heads": 2}, ["3", "2"]),
        ({"embed_dim": 12, "num_heads": 4, "num_kv_heads": 0}, ["4", "0"]),
        ({"embed_dim": 0, "num_heads": 4}, ["0", "4"]),
        ({"embed_dim": 12, "num_heads": 3, "head_dim": 5, "out_proj": False}, ["3", "5", "12"]),
        ({"embed_dim": 12, "num_heads": 3, "head_dim": 300}, ["300"]),
        ({"embed_dim": 12, "num_heads": 3, "dropout": 1.0}, ["1.0"]),
    ],
)
def test_module_refuses_impossible_options(arguments, numbers):
    with pytest.raises(ValueError) as caught:
        headwise.nn.MultiHeadAttention(**arguments)
    assert all(number in str(caught.value) for number in numbers)
