"""The memory forecast against the process' own peak, as the system counts it."""

import json

import pytest
from program import headwise

CONFIG = """
[data]
kind = "embedded"
embedded_pairs = 2000
embedded_valid = 50
[subword]
type = "bpe"
vocabulary = {vocabulary}
[model]
width = {width}
feed_forward = {feed_forward}
encoder_layers = {layers}
decoder_layers = {layers}
activation = "{activation}"
dropout = {dropout}
[train]
batch_tokens = {tokens}
ema = {ema}
max_steps = 6
[validation]
every = 6
[checkpoint]
every = 6
"""

CASES = {
    "small": {
        "vocabulary": 800,
        "width": 64,
        "feed_forward": 128,
        "layers": 2,
        "activation": "relu",
        "dropout": 0.1,
        "tokens": 1500,
        "ema": 0,
    },
    "deep": {
        "vocabulary": 1000,
        "width": 128,
        "feed_forward": 256,
        "layers": 4,
        "activation": "relu",
        "dropout": 0.2,
        "tokens": 6000,
        "ema": 0.99,
    },
    "wide": {
        "vocabulary": 1000,
        "width": 384,
        "feed_forward": 1024,
        "layers": 3,
        "activation": "gelu",
        "dropout": 0.0,
        "tokens": 2500,
        "ema": 0,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_forecast_is_within_fifteen_percent(case, tmp_path):
    (tmp_path / "run.toml").write_text(CONFIG.format(**CASES[case]))
    done = headwise("train", tmp_path / "run.toml", "--output", tmp_path / "run")
    assert done.code == 0, done.err
    entries = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    by_event = {entry["event"]: entry for entry in entries}
    forecast, peak = by_event["memory_forecast"]["bytes"], by_event["memory_peak"]["bytes"]
    print(f"{case}: forecast {forecast / 2**20:.0f} MiB, peak {peak / 2**20:.0f} MiB")
    assert 0.85 < forecast / peak < 1.15
