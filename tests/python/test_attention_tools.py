"""headwise shapes and headwise check-masks, as a user calls them."""

import json
import re
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from program import headwise, refused, tiny_run
from safetensors.numpy import load_file, save_file


def shapes(*arguments):
    done = headwise("shapes", *arguments, "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    return {step["step"]: step for step in report["steps"]}


def test_the_documentation_shows_what_the_program_prints():
    text = (Path(__file__).resolve().parents[2] / "docs" / "attention_tools.md").read_text()
    shown = re.findall(r"^```\n\$ headwise ([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    tried = {call: headwise(*call.split()) for call, _ in shown if "spoilt" not in call}
    assert len(tried) == 4
    for call, printed in shown:
        if call in tried:
            assert tried[call].out + tried[call].err == printed, call


# --- shapes


def test_the_steps_of_self_attention_at_full_size():
    steps = shapes("--batch", 32, "--tokens", 128, "--width", 512, "--heads", 8)
    tokens, heads, scores = [32, 128, 512], [32, 8, 128, 64], [32, 8, 128, 128]
    assert steps["project q"]["sizes"] == tokens
    assert steps["heads of k first"]["sizes"] == heads
    assert steps["scores of q and k"]["sizes"] == scores
    assert steps["scores of q and k"]["bytes"] == 4 * np.prod(scores)
    assert steps["scores of q and k"]["memory"] == "never stored"
    assert steps["project the output"]["sizes"] == tokens
    live = [step for step in steps.values() if step["memory"] != "never stored"]
    assert not any(step["copied"] for step in live)
    for step in live:
        # What numpy makes of the same sizes and strides.
        array = np.lib.stride_tricks.as_strided(
            np.empty(0, np.float32), step["sizes"], [4 * stride for stride in step["strides"]]
        )
        assert step["contiguous"] == array.flags.c_contiguous, step
        assert step["bytes"] == array.nbytes, step


def test_cross_attention_is_not_square():
    steps = shapes(
        *("--batch", 2, "--tokens", 5, "--source-tokens", 7, "--width", 12),
        *("--heads", 6, "--kv-heads", 3, "--head-width", 8),
    )
    assert steps["heads of q first"]["sizes"] == [2, 6, 5, 8]
    assert steps["heads of k first"]["sizes"] == [2, 3, 7, 8]
    assert steps["scores of q and k"]["sizes"] == [2, 6, 5, 7]


def test_the_table_is_aligned():
    rows = headwise("shapes", "--batch", 1, "--tokens", 2, "--width", 8, "--heads", 2).rows()
    column = rows[0].index("sizes")
    assert len(rows) == 22  # a heading, one input, 20 steps
    for row in rows:
        assert row[column - 1] == " " and row[column] in "s("


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--heads", 7), ["embed_dim 512", "num_heads 7"]),
        (("--heads", 8, "--kv-heads", 3), ["num_heads 8", "num_kv_heads 3"]),
        (("--head-width", 300), ["head_dim", "300"]),
    ],
)
def test_impossible_heads(arguments, words):
    for command in ("shapes", "check-masks"):
        message = refused(command, "--width", 512, *arguments)
        assert all(word in message for word in words), message


def test_a_negative_size_is_a_wrong_call():
    assert "--tokens" in refused("shapes", "--tokens", -1, code=2)


# --- check-masks


def test_a_module_that_is_right():
    done = headwise("check-masks", "--width", 24, "--heads", 4, "--kv-heads", 2)
    assert done.code == 0, done.err
    assert done.rows()[-1] == "18 of 18 checks passed"
    for form in ("padded", "packed"):
        row = next(row for row in done.rows() if row.startswith(f"module  {form}"))
        assert row.split()[2:] == ["ok"] * 9


def test_every_attention_of_a_trained_model():
    done = headwise("check-masks", tiny_run(), "--json")
    assert done.code == 0, done.err
    reports = json.loads(done.out)
    assert [(report["module"], report["form"]) for report in reports] == [
        (module, form)
        for module in ("encoder 0 self", "decoder 0 self", "decoder 0 cross")
        for form in ("padded", "packed")
    ] + [("the whole model", "packed")]
    assert all(check["passed"] for report in reports for check in report["checks"].values())


def test_a_spoilt_model_is_named_with_the_check_that_failed(tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_run() / "step-200", model)
    weights = model / "model.safetensors"
    tensors = load_file(weights)
    name = "decoder_0.cross_attention.q_proj.weight"
    tensors[name] = np.full_like(tensors[name], np.nan)
    save_file(tensors, weights)
    manifest = json.loads((model / "manifest.json").read_text())
    data = weights.read_bytes()
    manifest["files"][weights.name] = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
    (model / "manifest.json").write_text(json.dumps(manifest))

    done = headwise("check-masks", model)
    assert done.code == 1, done.out + done.err
    failed = [row for row in done.rows() if row.startswith("FAILED ")]
    where = {row.removeprefix("FAILED ").split(", ")[0] for row in failed}
    assert where == {"decoder 0 cross", "the whole model"}
    assert any(": row-sums: " in row for row in failed)
    assert "encoder 0 self" in done.out


def test_sizes_belong_to_a_module_not_to_a_model():
    message = refused("check-masks", tiny_run(), "--heads", 4, code=2)
    assert "--heads" in message
