"""The attention module from and to `torch.nn.MultiheadAttention`; weights are copied."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils import skip_init

if TYPE_CHECKING:
    from headwise.nn import MultiHeadAttention

__all__ = ["module_from_torch", "module_to_torch"]

_TORCHS = torch.nn.MultiheadAttention


def module_from_torch(cls: type["MultiHeadAttention"], module: _TORCHS) -> "MultiHeadAttention":
    """Do what `MultiHeadAttention.from_torch` says, for the class `cls`."""
    _check_torchs(module)
    weight = module.out_proj.weight
    ours = skip_init(  # draws nothing from the generator
        cls,
        module.embed_dim,
        module.num_heads,
        kdim=module.kdim,
        vdim=module.vdim,
        bias=module.in_proj_bias is not None,
        dropout=module.dropout,
        device=weight.device,
        dtype=weight.dtype,
    )
    layers = (ours.q_proj, ours.k_proj, ours.v_proj)
    if module.in_proj_weight is not None:  # torch joins the three where their widths agree
        _copy_parts([layer.weight for layer in layers], module.in_proj_weight)
    else:
        _copy(ours.q_proj.weight, module.q_proj_weight)
        _copy(ours.k_proj.weight, module.k_proj_weight)
        _copy(ours.v_proj.weight, module.v_proj_weight)
    if module.in_proj_bias is not None:
        _copy_parts([layer.bias for layer in layers], module.in_proj_bias)
        _copy(ours.out_proj.bias, module.out_proj.bias)
    _copy(ours.out_proj.weight, weight)
    return ours.train(module.training)


def module_to_torch(module: "MultiHeadAttention") -> _TORCHS:
    """Do what `MultiHeadAttention.to_torch` says."""
    _check_ours(module)
    q, k, v, out = module.q_proj, module.k_proj, module.v_proj, module.out_proj
    theirs = skip_init(
        _TORCHS,
        module.embed_dim,
        module.num_heads,
        dropout=module.dropout,
        bias=q.bias is not None,
        kdim=k.in_features,
        vdim=v.in_features,
        batch_first=True,
        device=q.weight.device,
        dtype=q.weight.dtype,
    )
    if theirs.in_proj_weight is not None:
        _copy_joined(theirs.in_proj_weight, [q.weight, k.weight, v.weight])
    else:
        _copy(theirs.q_proj_weight, q.weight)
        _copy(theirs.k_proj_weight, k.weight)
        _copy(theirs.v_proj_weight, v.weight)
    if q.bias is not None:
        _copy_joined(theirs.in_proj_bias, [q.bias, k.bias, v.bias])
        _copy(theirs.out_proj.bias, out.bias)
    _copy(theirs.out_proj.weight, out.weight)
    return theirs.train(module.training)


def _check_torchs(module: _TORCHS) -> None:
    if not isinstance(module, _TORCHS):
        raise TypeError(f"from_torch takes a torch.nn.MultiheadAttention; got {_name(module)}")
    if type(module).forward is not _TORCHS.forward:
        raise TypeError(
            f"from_torch takes a torch.nn.MultiheadAttention; got {_name(module)}, a subclass with "
            "a forward of its own, which may compute something else"
        )
    if not module.batch_first:
        raise ValueError(
            "the module has batch_first=False and reads (T, B, E); headwise reads (B, T, E), so "
            "its inputs must be transposed: set module.batch_first = True once they are"
        )
    if module.bias_k is not None or module.bias_v is not None:
        raise ValueError("the module has add_bias_kv=True; headwise has no learned extra key")
    if module.add_zero_attn:
        raise ValueError("the module has add_zero_attn=True; headwise has no extra key of zeros")
    _check_biases(in_proj=module.in_proj_bias, out_proj=module.out_proj.bias)


def _check_ours(module: "MultiHeadAttention") -> None:
    has = "torch.nn.MultiheadAttention has"
    heads, width = module.num_heads, module.head_dim
    if module.num_kv_heads != heads:
        raise ValueError(
            f"{has} no grouped heads: num_kv_heads {module.num_kv_heads} must equal num_heads "
            f"{heads}"
        )
    if heads * width != module.embed_dim:
        raise ValueError(
            f"{has} no head width of its own: num_heads {heads} * head_dim {width} must equal "
            f"embed_dim {module.embed_dim}"
        )
    if module.out_proj is None:
        raise ValueError(f"{has} always an output projection; this module has out_proj=False")
    if module.rotary:
        raise ValueError(f"{has} no rotary positions; this module has rotary=True")
    layers = ("q_proj", "k_proj", "v_proj", "out_proj")
    _check_biases(**{name: getattr(module, name).bias for name in layers})


def _check_biases(**biases: Tensor | None) -> None:
    absent = [name for name, bias in biases.items() if bias is None]
    if 0 < len(absent) < len(biases):
        raise ValueError(
            f"all projections must have a bias or none: {', '.join(absent)} of "
            f"{', '.join(biases)} has none"
        )


def _copy(target: Tensor, value: Tensor) -> None:
    with torch.no_grad():
        target.copy_(value)
    target.requires_grad_(value.requires_grad)


def _copy_parts(targets: list[Tensor], joined: Tensor) -> None:
    for target, value in zip(targets, joined.detach().chunk(len(targets)), strict=True):
        _copy(target, value)
        target.requires_grad_(joined.requires_grad)


def _copy_joined(target: Tensor, values: list[Tensor]) -> None:
    with torch.no_grad():
        target.copy_(torch.cat(values))
    target.requires_grad_(any(value.requires_grad for value in values))


def _name(module: object) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"
