"""explain() names what a call runs, from the plan of the launch."""

import os
import re
import subprocess
import sys

import headwise
import pytest
import torch
from attention_reference import inputs


def numbers(text, name):
    return [int(n) for n in re.findall(rf"{name} (\d+)", text)]


def test_names_kernel_tiles_and_memory_of_both_passes():
    text = headwise.explain(*inputs(dtype=torch.float32))
    assert "float32 on cpu" in text
    assert "query heads 4, key/value heads 2, queries 5, keys 7" in text
    forward, backward = text.split("backward:")
    assert "forward: kernel cpu/tiles, instruction set " in forward
    assert " kernel cpu/tiles, instruction set " in backward
    for part in (forward, backward):
        assert re.search(r"tile: \d+ query rows x \d+ keys", part)
        assert re.search(r"item: up to \d+ query rows x \d+ keys", part)
        assert min(numbers(part, "scratch bytes a thread")) > 0
        assert "workspace bytes: 0" in part
        assert numbers(part, "items") == [4]  # 2 sequences, 2 groups


def test_names_the_active_masks():
    q, k, v = inputs()
    assert "masks: none\n" in headwise.explain(q, k, v)
    text = headwise.explain(
        q,
        k,
        v,
        hide=torch.zeros(1, 1, 5, 7, dtype=torch.bool),
        bias=torch.zeros(5, 7, dtype=q.dtype, requires_grad=True),
        query_lengths=torch.tensor([5, 2]),
        key_lengths=torch.tensor([5, 2]),
        causal=True,
        window=(3, None),
        dropout=0.25,
    )
    assert (
        "masks: hide [1, 1, 5, 7], bias [5, 7] with gradient, query_lengths, key_lengths, "
        "causal (align end), window (3, unbounded) (align end)\n  dropout: 0.25\n"
    ) in text
    assert "keep [5, 7]" in headwise.explain(q, k, v, keep=torch.ones(5, 7, dtype=torch.bool))


def test_tells_the_phases_of_the_very_plan():
    q, k, v = inputs(queries=700, keys=700, dtype=torch.bfloat16)
    text = headwise.explain(q, k, v).split("backward:")[1]
    assert "phase 3 of 3" in text  # blocks of 256 rows and keys meet in turn
    assert numbers(text, "workspace bytes:")[0] > 0  # sums of bfloat16 gradients
    bias = torch.zeros(700, 700, requires_grad=True)
    assert "phase 4 of 4" in headwise.explain(q, k, v, bias=bias)
    assert "phase 4" not in headwise.explain(q, k, v, bias=bias.detach())
    q, k, v = inputs(queries=1, keys=1400, dtype=torch.bfloat16)
    decode = headwise.explain(q, k, v).split("backward:")[0]
    assert "phase 2 of 2" in decode  # splits of the keys and their combination


def test_never_more_threads_than_allowed():
    tensors = inputs(queries=300, keys=300)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert max(numbers(headwise.explain(*tensors), "threads")) == 3
        assert max(numbers(headwise.explain(*inputs(queries=1, keys=1)), "threads")) == 1
    finally:
        torch.set_num_threads(threads)


def test_packed():
    q, k, v = (torch.randn(6, 2, 8) for _ in range(3))
    starts = torch.tensor([0, 2, 6])
    text = headwise.explain_packed(q, k, v, starts, starts, 4, 4, causal=True)
    assert "packed" in text
    assert "sequences 2, query heads 2, key/value heads 2, queries 4, keys 4" in text


def test_checks_as_attention_does():
    q, k, v = inputs()
    with pytest.raises(ValueError, match="key has 8 numbers a head"):
        headwise.explain(q[..., :3], k, v)
    with pytest.raises(ValueError, match="query_lengths"):
        headwise.explain(q, k, v, query_lengths=torch.tensor([9, 9]))


def test_needs_no_gradient_and_no_seed():
    q, k, v = (x.requires_grad_() for x in inputs())
    state = torch.get_rng_state()
    assert "dropout: 0.5" in headwise.explain(q, k, v, dropout=0.5)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ["SSE4", "AVX2"])
def test_follows_the_chosen_instruction_set(name, tmp_path):
    code = "import headwise, torch; print(headwise.explain(*[torch.zeros(1, 1, 2, 8)] * 3))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"HEADWISE_INSTRUCTION_SET": name},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:  # not a machine that has it
        assert "HEADWISE_INSTRUCTION_SET" in run.stderr
        pytest.skip(run.stderr.strip().splitlines()[-1])
    assert run.stdout.count(f"instruction set {name}\n") == 2
