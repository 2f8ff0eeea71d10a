"""The benchmarks are honest: both sides do the same work, and a verdict says what was measured.

Nothing here depends on how fast anything is.
"""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import headwise
import pytest
import torch

from bench import loss, ours, sdpa, train_peer
from bench.cases import CASES, Case, Demand
from bench.compare import Measured, RefusedError, Sides, compare, largest_difference
from bench.forms import FORMS
from bench.inputs import Inputs
from bench.machine import kernel_build_times
from bench.memory import Block, peak_of, replay
from bench.peer import RemoteWorker
from bench.report import Report, line
from bench.timing import Comparison, Verdict, judge, worst
from bench.worker import LocalWorker

ROOT = Path(__file__).resolve().parents[2]


def local_sides() -> Sides:
    return Sides(LocalWorker(sdpa.variants), LocalWorker(ours.variants), LocalWorker(ours.variants))


def measure(case: Case) -> Measured:
    """Refused for lack of a 16-bit kernel is no failure; anything else is."""
    try:
        return compare(case, local_sides(), threads=1, repeats=1, least_seconds=0.0)
    except RefusedError as reason:
        if case.dtype != "float32" and "loat" in str(reason):
            pytest.skip(str(reason))
        raise


def named(text: str) -> Case:
    (case,) = (case for case in CASES if case.name == text)
    return case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_sides_compute_the_same(case):
    measured = measure(case.tiny())
    assert measured.agree, measured.difference


@pytest.mark.parametrize("case", [c for c in CASES if c.backward], ids=lambda case: case.name)
def test_both_sides_give_every_gradient(case):
    case = replace(case.tiny(), dtype="float32")
    inputs = Inputs(case)
    count = 5 if case.mask == "bias" else 4
    for work in [*ours.variants(case, inputs).values(), *sdpa.variants(case, inputs).values()]:
        results = work.results()
        assert len(results) == count
        assert all(x.abs().max() > 0 for x in results)


@pytest.mark.parametrize("case", [c for c in CASES if c.dropout], ids=lambda case: case.name)
def test_both_sides_drop_at_the_same_rate(case):
    """With every value 1 an output is (keys kept) / (keys expected): mean 1, the same variance."""
    inputs = Inputs(case.tiny())
    inputs.query.zero_()
    inputs.value.fill_(1.0)
    pairs, rows = inputs.visible_pairs(), inputs.rows(inputs.query).numel() / case.width
    for work in [*ours.variants(case, inputs).values(), *sdpa.variants(case, inputs).values()]:
        outputs = torch.stack([work.results()[0][..., 0].flatten() for _ in range(60)])
        assert outputs.mean().item() == pytest.approx(1, abs=0.02)
        expected = case.dropout / (1 - case.dropout) * rows / pairs  # if all rows saw the mean
        assert 0.5 * expected < outputs.var().item() < 4 * expected


@pytest.mark.parametrize(
    "change", [{"scale": 0.3}, {"causal": False}, {"window": (5, 0)}], ids=lambda x: next(iter(x))
)
def test_other_work_is_noticed(monkeypatch, change):
    right = headwise.attention
    monkeypatch.setattr(
        headwise, "attention", lambda *tensors, **options: right(*tensors, **{**options, **change})
    )
    measured = measure(named("T512 causal").tiny())
    assert not measured.agree
    row = Report("AVX2", {}).values(measured)
    assert row["verdict"] == "results differ"
    assert not row["reaches_goal"]


def test_differences_of_any_kind_count():
    assert largest_difference([[1.0, 2.0]], [[1.0, 4.0]]) == 0.5
    assert largest_difference([[1.0, math.nan]], [[1.0, 4.0]]) == math.inf
    assert largest_difference([[1.0]], [[1.0, 4.0]]) == math.inf
    assert largest_difference([[1.0]], [[1.0], [2.0]]) == math.inf
    assert largest_difference([], []) == math.inf
    assert largest_difference([[0.0, 0.0]], [[0.0, 0.0]]) == 0.0
    assert largest_difference([[0.0, 0.5]], [[0.0, 0.0]]) > 0.1


def test_a_peer_in_another_process_does_the_same():
    remote = RemoteWorker(sys.executable)
    try:
        assert remote.torch_version == torch.__version__
        sides = Sides(remote, LocalWorker(ours.variants), LocalWorker(ours.variants))
        case = named("packed 4-40, dropout").tiny()
        measured = compare(case, sides, threads=1, repeats=2, least_seconds=0.0)
        assert measured.agree
        assert len(measured.times.baseline) == len(measured.times.ours) == 2
        with pytest.raises(RuntimeError, match="KeyError"):
            remote.digest("no such form")
    finally:
        remote.close()


@pytest.mark.parametrize(
    ("ratio", "spread", "bar", "verdict"),
    [
        (4.5, 0.1, 4, Verdict.PASSED),
        (4.3, 0.1, 4, Verdict.UNDECIDED),
        (3.7, 0.1, 4, Verdict.UNDECIDED),
        (3.6, 0.1, 4, Verdict.MISSED),
        (4.0, 0.0, 4, Verdict.PASSED),
        (9.0, 2.0, 4, Verdict.UNDECIDED),
        (0.1, 0.0, None, Verdict.NONE),
    ],
)
def test_within_the_spread_of_the_bar_nothing_is_decided(ratio, spread, bar, verdict):
    assert judge(ratio, spread, bar) is verdict


def test_ratio_is_of_minima_and_spread_reaches_to_the_lower_quartile():
    times = Comparison(baseline=[4.0, 4.4, 9.0, 9.0, 9.0], ours=[2.0, 2.1, 2.0, 2.0, 80.0])
    assert times.ratio == 2.0
    assert times.spread == pytest.approx(0.1)
    seven = Comparison(baseline=[3.3, 3.0, 9.0, 9.0, 3.6, 9.0, 9.0], ours=[1.0] * 7)
    assert seven.spread == pytest.approx(0.2)


def test_the_worst_of_several_verdicts_counts():
    assert worst([Verdict.PASSED, Verdict.MISSED, Verdict.UNDECIDED]) is Verdict.MISSED
    assert worst([Verdict.PASSED, Verdict.UNDECIDED]) is Verdict.UNDECIDED
    assert worst([Verdict.NONE, Verdict.PASSED]) is Verdict.PASSED
    assert worst([]) is Verdict.NONE


def judged(case: Case, capability: str, times: list[Comparison], bandwidth: float = 1e9) -> str:
    report = Report(capability, {1: bandwidth})
    for threads, comparison in enumerate(times, 1):
        row = report.values(Measured(case, threads, "form", 0.0, comparison, visible_pairs=1))
        assert row["verdict"] in line(row)
    return row["verdict"]


def test_bars_depend_on_the_instruction_set():
    row = replace(named("T2048 causal forward"), demand=Demand(1.4, 1.7, bar_avx512=1.0))
    times = [Comparison([1.2] * 5, [1.0] * 5)]
    assert judged(row, "AVX2", times) == "missed"
    assert judged(row, "AVX512", times) == "passed"


def test_decoding_has_a_second_bar_on_avx512():
    row = named("decode fp32")
    times = [Comparison([10.0] * 5, [1.0] * 5)]  # seconds
    read = 2 * 8 * 4 * 4096 * 128 * 4
    assert judged(row, "AVX512", times, bandwidth=read / 0.7) == "passed"
    assert judged(row, "AVX512", times, bandwidth=read / 0.5) == "missed"
    assert judged(row, "AVX2", times, bandwidth=read / 0.5) == "passed"


def test_two_threads_are_judged_by_scaling_alone():
    row = named("T512 causal")
    one = Comparison([1.0] * 5, [1.0] * 5)
    assert judged(row, "AVX2", [one, Comparison([9.0] * 5, [1 / 1.5] * 5)]) == "missed"
    assert judged(row, "AVX2", [one, Comparison([0.1] * 5, [1 / 1.9] * 5)]) == "passed"


def test_the_goal_is_named_where_it_is_reached():
    for baseline, end in [(2.9, "passed"), (3.1, "passed, goal"), (2.0, "missed")]:
        times = Comparison([baseline] * 5, [1.0] * 5)
        row = Measured(named("T512 causal"), 1, "form", 0.0, times, visible_pairs=1)
        shown = line(Report("AVX2", {}).values(row))
        assert f"  {end} " in shown


def test_the_tables_work_is_counted():
    inputs = Inputs(replace(named("T512 window 64").tiny(), batch=1, heads=1, kv_heads=0))
    brute = sum(min(i + 1, 7) for i in range(20))
    assert inputs.visible_pairs() == brute


def test_replayed_blocks_give_the_peak_without_results():
    blocks = [Block(1, 100), Block(2, 50), Block(2, -50), Block(3, 30), Block(9, -4), Block(1, -1)]
    assert replay(blocks, []) == 150
    assert replay(blocks, [1]) == 50
    assert replay([Block(1, 10), Block(1, -10), Block(2, 5), Block(1, 40)], [1]) == 10
    assert replay([], [1]) == 0


def test_peak_memory_is_what_is_beyond_the_results():
    mebibytes = 1 << 18  # floats

    def run() -> list[torch.Tensor]:
        extra = torch.ones(48 * mebibytes)
        return [extra[: 16 * mebibytes] + 1]

    peak = peak_of(run, threads=1)
    assert 0 <= peak.c10 - (48 << 20) < 4096
    assert peak.process is None or abs(peak.process - (48 << 20)) < 8 << 20


def test_build_times_are_those_of_the_last_build(tmp_path):
    (tmp_path / ".ninja_log").write_text(
        "# ninja log v7\n"
        "0\t9000\t1\tcsrc/kernels/CMakeFiles/k.dir/forward.cpp.o\tabc\n"
        "10\t2510\t2\tcsrc/kernels/CMakeFiles/k.dir/forward.cpp.o\tabc\n"
        "10\t999\t2\tcsrc/ops/CMakeFiles/o.dir/cpu.cpp.o\tabc\n"
    )
    assert kernel_build_times(tmp_path) == {"forward.cpp": 2.5}
    assert kernel_build_times(tmp_path / "none") == {}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_both_sides_of_the_loss_compute_the_same(smoothing):
    case = loss.LossCase("small", 50, 16, 90, smoothing)
    ours, eager = (loss.gradients_of(side(case), case)() for side in (loss.ours, loss.eager))
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["attention", "--repeats", "4"], "at least 5"),
        (["attention", "--clock", "cpu", "--threads", "1,2"], "--threads 1"),
        (["attention", "--threads", "0"], "--threads"),
        (["attention", "--peer", "/bin/true"], "--peer /bin/true: the peer ended"),
        (["attention", "--case", "no such case"], "no case has 'no such case' in its name"),
        (["train", "--updates", "30"], "--updates 30: a multiple of 20 is needed"),
    ],
)
def test_a_wrong_call_is_explained(arguments, complaint):
    run = subprocess.run(
        [ROOT / "scripts" / "bench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 2
    assert complaint in run.stderr


# --- the peers of `bench train`

MODEL = {"width": 16, "feed_forward": 24, "norm": "pre", "dropout": 0.0}
MODEL |= {"encoder_layers": 1, "decoder_layers": 2}
MODEL |= {"encoder_heads": 2, "decoder_heads": 2, "cross_heads": 4}
JOB = {"model": MODEL, "vocabulary": 30, "smoothing": 0.1}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_tuned_peer_trains_the_same_model(norm):
    job = {**JOB, "model": {**MODEL, "norm": norm}}
    torch.manual_seed(3)
    plain, tuned = (train_peer.Translator(job, tuned) for tuned in (False, True))
    tuned.load_state_dict(plain.state_dict())
    source = torch.randint(1, 30, (4, 6))  # tuned: all sources of a batch have one length
    inputs = torch.randint(1, 30, (4, 5))
    labels = torch.randint(1, 30, (4, 5))
    labels[1, 3:] = labels[2, 1:] = train_peer.PAD
    losses = [model(source, inputs, labels) for model in (plain, tuned)]
    torch.testing.assert_close(*losses)
    for loss_ in losses:
        loss_.backward()
    for a, b in zip(plain.parameters(), tuned.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_a_peer_sees_every_pair_once(form):
    pairs = [([i] * (1 + i % 7), [i] * (1 + i % 5)) for i in range(1, 120)]
    epoch = train_peer.batches(pairs, 20, form)
    assert sorted(pair for batch in epoch for pair in batch) == sorted(pairs)
    assert all(sum(len(b) for _, b in batch) <= 20 for batch in epoch)
    if form == "tuned":
        assert all(len({len(a) for a, _ in batch}) == 1 for batch in epoch)
