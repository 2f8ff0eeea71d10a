"""Weights go from torch's attention module into ours and back; the results are torch's."""

import math

import headwise
import pytest
import torch
from attention_reference import close

MultiHeadAttention = headwise.nn.MultiHeadAttention

CONFIGURATIONS = {
    "plain": {},
    "no biases": {"bias": False},
    "other widths": {"kdim": 10, "vdim": 14},
    "other key width, no biases": {"kdim": 10, "bias": False},
    "one head": {"num_heads": 1},
    "float32": {"dtype": torch.float32},
}


def torchs(embed_dim=24, num_heads=4, **options):
    options = {"dtype": torch.float64, "batch_first": True, **options}
    module = torch.nn.MultiheadAttention(embed_dim, num_heads, **options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.uniform_(-0.5, 0.5)  # biases too, which torch sets to zero
    return module


def batch(module):
    """Query (3, 5, 24), key and value of 7 tokens, all wanting gradients."""
    widths = {"query": (5, 24), "key": (7, module.kdim), "value": (7, module.vdim)}
    dtype = module.out_proj.weight.dtype
    return [torch.randn(3, *size, dtype=dtype, requires_grad=True) for size in widths.values()]


def assert_same(ours, theirs, inputs, our_masks, their_masks):
    tolerance = 1e-11 if inputs[0].dtype == torch.float64 else 1e-5
    output, weights = ours(*inputs, need_weights=True, **our_masks)
    want, want_weights = theirs(*inputs, average_attn_weights=False, **their_masks)
    close(output, want, tolerance)
    close(weights, want_weights, tolerance)
    incoming = torch.randn_like(output)
    got = torch.autograd.grad(output, inputs, incoming)
    for a, b in zip(got, torch.autograd.grad(want, inputs, incoming), strict=True):
        close(a, b, tolerance * 10)


def mask_pairs(theirs):
    """The same masks with our names and with torch's."""
    dtype = theirs.out_proj.weight.dtype
    hide = torch.rand(5, 7) < 0.3
    hide[:, 0] = False
    lengths = torch.tensor([7, 2, 4])
    padding = torch.arange(7) >= lengths[:, None]
    bias = torch.randn(5, 7, dtype=dtype).masked_fill(hide, -math.inf)
    yield {}, {}
    yield {"hide": hide}, {"attn_mask": hide}
    yield {"bias": bias}, {"attn_mask": bias}
    yield {"key_lengths": lengths}, {"key_padding_mask": padding}
    yield {"hide": padding[:, None, None, :]}, {"key_padding_mask": padding}


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_from_torch_computes_the_same(options):
    theirs = torchs(**options)
    ours = MultiHeadAttention.from_torch(theirs)
    for our_masks, their_masks in mask_pairs(theirs):
        assert_same(ours, theirs, batch(theirs), our_masks, their_masks)


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_to_torch_computes_the_same(options):
    ours = MultiHeadAttention(24, **{"num_heads": 4, "dtype": torch.float64, **options})
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.uniform_(-0.5, 0.5)
    theirs = ours.to_torch()
    assert type(theirs) is torch.nn.MultiheadAttention
    for our_masks, their_masks in mask_pairs(theirs):
        assert_same(ours, theirs, batch(theirs), our_masks, their_masks)


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_there_and_back_changes_nothing(options):
    theirs = torchs(**options)
    back = MultiHeadAttention.from_torch(theirs).to_torch()
    assert back.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert torch.equal(back.state_dict()[name], value), name


def test_modes_and_gradients_wanted_are_taken_over():
    theirs = torchs(dropout=0.25).eval()
    theirs.in_proj_weight.requires_grad_(False)
    theirs.out_proj.bias.requires_grad_(False)
    for ours in (MultiHeadAttention.from_torch(theirs), under_no_grad(theirs)):
        assert not ours.training
        assert ours.dropout == 0.25
        assert not ours.k_proj.weight.requires_grad
        assert ours.k_proj.bias.requires_grad
        assert ours.out_proj.weight.requires_grad
        assert not ours.out_proj.bias.requires_grad
    back = ours.train().to_torch()
    assert back.training
    assert back.dropout == 0.25
    assert not back.in_proj_weight.requires_grad
    assert back.in_proj_bias.requires_grad
    assert not back.out_proj.bias.requires_grad


def under_no_grad(module):
    with torch.no_grad():
        return MultiHeadAttention.from_torch(module)


def test_weights_are_copied_and_no_random_number_is_drawn():
    theirs = torchs()
    state = torch.get_rng_state()
    ours = MultiHeadAttention.from_torch(theirs)
    ours.to_torch()
    assert torch.equal(state, torch.get_rng_state())
    before = ours.q_proj.weight.detach().clone()
    with torch.no_grad():
        theirs.in_proj_weight.zero_()
    assert torch.equal(ours.q_proj.weight, before)


class Subclass(torch.nn.MultiheadAttention):
    def forward(self, query):
        return query


@pytest.mark.parametrize(
    ("module", "error", "words"),
    [
        (lambda: torchs(add_bias_kv=True), ValueError, ["add_bias_kv=True"]),
        (lambda: torchs(add_zero_attn=True), ValueError, ["add_zero_attn=True"]),
        (lambda: torchs(batch_first=False), ValueError, ["batch_first=False", "(B, T, E)"]),
        (lambda: torchs(dropout=1.0), ValueError, ["dropout", "1.0"]),
        (lambda: torchs(300, 1), ValueError, ["head_dim", "300"]),
        (lambda: torch.nn.Linear(24, 24), TypeError, ["Linear"]),
        (lambda: Subclass(24, 4, batch_first=True), TypeError, ["Subclass", "forward"]),
    ],
)
def test_from_torch_refuses_what_we_cannot_do(module, error, words):
    with pytest.raises(error) as caught:
        MultiHeadAttention.from_torch(module())
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_kv_heads": 2}, ["num_kv_heads 2", "num_heads 4"]),
        ({"head_dim": 8}, ["num_heads 4", "head_dim 8", "embed_dim 24"]),
        ({"out_proj": False}, ["out_proj=False"]),
        ({"rotary": True}, ["rotary"]),
    ],
)
def test_to_torch_refuses_what_torch_cannot_do(options, words):
    with pytest.raises(ValueError) as caught:
        MultiHeadAttention(24, 4, **options).to_torch()
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_bias_taken_from_one_projection_is_refused():
    ours = MultiHeadAttention(24, 4)
    ours.k_proj.bias = None
    with pytest.raises(ValueError, match="k_proj of"):
        ours.to_torch()
    theirs = torchs()
    theirs.out_proj.bias = None
    with pytest.raises(ValueError, match="out_proj of"):
        MultiHeadAttention.from_torch(theirs)
