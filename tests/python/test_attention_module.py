"""The module and the drop-in function, against their counterparts in torch."""

import inspect

import headwise
import pytest
import torch
import torch.nn.functional as F
from attention_reference import close, inputs


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


@pytest.mark.parametrize("rotary", [False, True])
def test_module_steps_equal_the_whole_at_once(rotary):
    module = headwise.nn.MultiHeadAttention(12, 6, num_kv_heads=2, rotary=rotary).double().eval()
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


def test_rotary_scores_depend_on_distances_alone():
    module = headwise.nn.MultiHeadAttention(12, 3, rotary=True, bias=False).double()
    x = torch.randn(1, 4, 12).double()
    _, weights = module(torch.cat([x, x], 1), hide=torch.arange(8)[None] < 4, need_weights=True)
    _, alone = module(x, need_weights=True)
    close(weights[:, :, 4:, 4:], alone)
    plain = headwise.nn.MultiHeadAttention(12, 3, bias=False).double()
    plain.load_state_dict(module.state_dict())
    assert not torch.allclose(plain(x, need_weights=True)[1], alone)
    with pytest.raises(ValueError, match="query alone"):
        module(x, x)


def test_cross_steps_equal_the_whole_at_once():
    module = headwise.nn.MultiHeadAttention(12, 6, num_kv_heads=2, kdim=5, vdim=7).double().eval()
    x, rows = torch.randn(3, 4, 12).double(), torch.tensor([1, 1, 0])
    key, value = torch.randn(2, 9, 5).double(), torch.randn(2, 9, 7).double()
    for lengths in (torch.tensor([9, 4]), None):
        with torch.no_grad():
            cache = module.cross_cache(key, value, lengths)
            got = torch.cat([module.cross_step(step, cache, rows) for step in x.split(2, 1)], 1)
            real = None if lengths is None else lengths[rows]
            close(got, module(x, key[rows], value[rows], key_lengths=real))
    with pytest.raises(ValueError, match=r"value must have shape \(B, T, 7\)"):
        module.cross_cache(key, key)


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
        ({"embed_dim": 12, "num_heads": 4, "rotary": True}, ["3"]),
    ],
)
def test_module_refuses_impossible_options(arguments, numbers):
    with pytest.raises(ValueError) as caught:
        headwise.nn.MultiHeadAttention(**arguments)
    assert all(number in str(caught.value) for number in numbers)
