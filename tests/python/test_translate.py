"""`headwise translate` as its users call it: lines in, lines out, whatever the lines are."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import sentencepiece
from program import BINARY, ENVIRONMENT, LONGEST, embedded_pairs, error_of, headwise, tiny_run


def translate(text, *options, model=None, code=0):
    done = headwise("translate", model or tiny_run(), *options, stdin=text)
    assert done.code == code, done.err
    return done


@pytest.fixture(scope="module")
def subword():
    return sentencepiece.SentencePieceProcessor(model_file=str(tiny_run() / "best" / "source.spm"))


@pytest.fixture(scope="module")
def lines(subword):
    """English lines of the embedded corpus that are within the model's limit."""
    english = [source for source, _ in embedded_pairs()]
    return [line for line in english if len(subword.encode(line)) <= LONGEST][:60]


def joined(lines):
    return "".join(line + "\n" for line in lines)


# --- lines and their order


def numbered_lines(lines):
    """2500 lines: a quarter empty, three over the limit, the others different from each other."""
    rows = [
        "" if i % 4 == 0 else f"{' '.join(lines[i % len(lines)].split()[:4])} {i}"
        for i in range(1, 2501)
    ]
    for i in (1000, 1001, 2499):
        rows[i] = f"{i} " + " ".join(lines[:4])
    return rows


def near(a, b):
    """Equal, or a near tie between two translations."""
    (score_a, _, text_a), (score_b, _, text_b) = a.split("\t"), b.split("\t")
    return text_a == text_b or abs(float(score_a) - float(score_b)) < 1e-5


def test_line_n_of_the_output_belongs_to_line_n_of_the_input(lines):
    rows = numbered_lines(lines)
    done = translate(joined(rows), "--scores", "--beam", 1)
    out = done.rows()
    assert len(out) == len(rows)
    assert [not row for row in rows] == [row == "0.000000\t0.000000\t" for row in out]
    cut = re.findall(r"line (\d+): over the model's limit, translated in \d parts", done.err)
    assert cut == ["1001", "1002", "2500"]
    backwards = translate(joined(rows[::-1]), "--scores", "--beam", 1, "--batch-tokens", 300)
    assert all(near(a, b) for a, b in zip(out, backwards.rows()[::-1], strict=True))
    assert len(set(out)) > 1500, "a model that says the same of all lines shows nothing"


def test_long_lines_are_refused_on_request_and_named(lines):
    rows = numbered_lines(lines)[900:1100]
    done = headwise("translate", tiny_run(), "--long-lines", "refuse", stdin=joined(rows))
    message = error_of(done, 1)
    assert "line 101:" in message and str(LONGEST) in message and "--long-lines split" in message


def test_nbest_rows_carry_line_and_rank(lines):
    rows = numbered_lines(lines)[990:1010]
    found = [row.split("\t") for row in translate(joined(rows), "--nbest", 3, "--scores").rows()]
    expected = [
        (str(i), str(rank)) for i, row in enumerate(rows, 1) for rank in range(1, 4 if row else 2)
    ]
    assert [(line, rank) for line, rank, *_ in found] == expected
    assert all(len(row) == 5 for row in found)
    for line in {row[0] for row in found}:
        scores = [float(row[2]) for row in found if row[0] == line]
        assert scores == sorted(scores, reverse=True)


def test_a_search_that_stops_early_finds_nothing_better(lines):
    text = joined(lines[:30])
    whole, early = (
        translate(text, "--scores", "--beam", 4, "--stop-after", count).rows() for count in (0, 1)
    )
    scores = [[float(row.split("\t")[0]) for row in rows] for rows in (whole, early)]
    assert all(a >= b - 1e-5 for a, b in zip(*scores, strict=True))
    assert "--stop-after" in error_of(
        headwise("translate", tiny_run(), "--nbest", 2, "--stop-after", 1, stdin=text), 2
    )


def test_batches_and_threads_change_nothing(lines):
    expected = translate(
        joined(lines[:15]), "--scores", "--batch-tokens", 5000, "--threads", 1
    ).rows()
    for options in (("--batch-tokens", 1), ("--batch-tokens", 50, "--threads", 2)):
        found = translate(joined(lines[:15]), "--scores", *options).rows()
        for a, b in zip(found, expected, strict=True):
            assert near(a, b)
            assert abs(float(a.split("\t")[0]) - float(b.split("\t")[0])) < 1e-5


# --- odd input


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n", " \n\t\n\u200b\n\u3000\n", "   "], ids=repr)
def test_blank_lines_stay_empty(text):
    count = text.count("\n") + (not text.endswith("\n") and text != "")
    assert translate(text).rows() == [""] * count


@pytest.mark.parametrize("batch_tokens", [1, 1000])
def test_blank_lines_leave_their_neighbours_alone(lines, batch_tokens):
    one, two = lines[:2]
    plain = translate(joined([one, two])).rows()
    blanks = ["", one, "  ", "", two, "\t", ""]
    found = translate(joined(blanks), "--batch-tokens", batch_tokens).rows()
    assert found == ["", plain[0], "", "", plain[1], "", ""]


def test_only_lf_ends_a_line(lines):
    one, two = lines[:2]
    expected = translate(joined([one, two])).out
    assert translate(f"{one}\r\n{two}\r\n").out == expected
    assert translate(f"{one}\n{two}").out == expected, "the last line needs no LF"
    odd = "\u2028".join([one, two]) + "\x0b\x0c\x85\r" + "x"
    assert len(translate(f"{odd}\n{two}\n").rows()) == 2


def test_invalid_bytes_are_replaced_and_told_with_the_line(lines):
    good = lines[0].encode()
    done = translate(good + b"\n" + b"\xff\xfe a tree \xc0\xaf\n" + b"\n" + good + b" \x00 x\n")
    assert len(done.rows()) == 4
    assert done.rows()[0] == translate(lines[0]).rows()[0]
    assert re.findall(r"line (\d+): invalid UTF-8", done.err) == ["2"]


# --- options


def test_models_are_named_by_run_link_or_checkpoint(lines, tmp_path):
    run = tiny_run()
    text = joined(lines[:5])
    expected = translate(text, model=run).out
    assert translate(text, model=run / "best").out == expected
    assert translate(text, model=(run / "best").resolve()).out == expected
    done = headwise("average", run / "step-100", run / "step-200", "--output", tmp_path / "mean")
    assert done.code == 0, done.err
    assert len(translate(text, model=tmp_path / "mean").rows()) == 5
    copy = tmp_path / "elsewhere"
    shutil.copytree((run / "best").resolve(), copy)
    assert translate(text, model=copy).out == expected, "a checkpoint needs nothing around it"


def test_scores_are_sums_and_sums_over_lengths(lines, subword):
    lengths = {}
    for penalty in (0, 1, 2):
        rows = translate(joined(lines), "--scores", "--length-penalty", penalty).rows()
        lengths[penalty] = 0
        for row in rows:
            score, log_probability, text = row.split("\t")
            score, log_probability = float(score), float(log_probability)
            lengths[penalty] += len(subword.encode(text))
            if penalty == 0:
                assert score == log_probability
            else:
                pieces = (log_probability / score) ** (1 / penalty)
                assert abs(pieces - round(pieces)) < 0.01, "not a sum over a power of a length"
    assert lengths[0] < lengths[1] < lengths[2], "the penalty does not move the length"


def test_a_sum_is_what_score_finds(lines, subword, tmp_path):
    done = translate(joined(lines), "--scores", "--beam", 1)
    cut = {int(n) for n in re.findall(r"line (\d+): no end", done.err)}
    rows = [row.split("\t") for row in done.rows()]
    (tmp_path / "source").write_text(joined(lines))
    (tmp_path / "target").write_text(joined(row[2] for row in rows))
    scored = headwise("score", tiny_run(), tmp_path / "source", tmp_path / "target")
    assert scored.code == 0, scored.err
    alike = 0
    for n, (row, value) in enumerate(zip(rows, scored.rows(), strict=True), 1):
        score, log_probability, text = float(row[0]), float(row[1]), row[2]
        # Only a text that becomes the pieces it was made of can have the same probability.
        if n in cut or len(subword.encode(text)) + 1 != round(log_probability / score):
            continue
        assert float(value) < log_probability + 0.5, "a greedy output is nearly the best there is"
        alike += abs(float(value) - log_probability) < 1e-4
    assert alike > 20, alike


def test_a_prefix_starts_every_translation_that_there_is(lines):
    prefix = embedded_pairs()[0][1].split()[0]
    rows = translate(
        joined([lines[0], "", lines[1], " ".join(lines[:4])]), "--prefix", prefix
    ).rows()
    assert rows[1] == ""
    for row in (rows[0], rows[2], rows[3]):
        assert row.startswith(prefix)
    free = translate(joined(lines[:1]), "--prefix", "").rows()
    assert free == translate(joined(lines[:1])).rows()


# --- terminals, pipes, signals


def notice_interrupts():
    """Whoever runs the tests may ignore Ctrl-C, and the program would honour that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start():
    """Starts a translation that reads `stdin`; whatever still runs at the end is killed."""
    started = []

    def run(*options, stdin, stdout=subprocess.PIPE):
        process = subprocess.Popen(
            [BINARY, "translate", tiny_run(), *map(str, options)],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            preexec_fn=notice_interrupts,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def answer(process, seconds=120):
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    assert ready, "no answer"
    return os.read(process.stdout.fileno(), 65536).decode()


@pytest.fixture
def at_terminal(start):
    """A translation that reads a terminal, and the terminal's other end."""
    ours, theirs = pty.openpty()
    process = start(stdin=theirs)
    os.close(theirs)
    yield process, ours
    os.close(ours)


def test_a_terminal_is_answered_line_by_line(at_terminal, lines):
    process, terminal = at_terminal
    expected = translate(joined(lines[:2])).rows()
    for line, translation in zip(lines, expected, strict=False):
        os.write(terminal, line.encode() + b"\n")
        assert answer(process) == translation + "\n"
    os.write(terminal, b"\x04")
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_a_line(at_terminal, lines, stop):
    process, terminal = at_terminal
    os.write(terminal, lines[0].encode() + b"\n")
    answer(process)
    process.send_signal(stop)
    assert process.wait(timeout=20) == 128 + stop


@pytest.fixture
def endless(tmp_path, lines):
    """A file that is answered at once for 2000 blank lines and then takes minutes."""
    (tmp_path / "lines").write_text("\n" * 2000 + joined(lines) * 2000)
    with (tmp_path / "lines").open() as file:
        yield file


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_decoding_within_seconds(start, endless, stop):
    process = start(stdin=endless)
    answer(process)  # the first chunk is done, the next one has begun
    process.send_signal(stop)
    began = time.monotonic()
    process.stdout.read()
    assert process.wait(timeout=60) == 128 + stop
    assert time.monotonic() - began < 20
    assert "error" not in process.stderr.read().decode()


def test_a_reader_that_leaves_ends_it_quietly(start, tmp_path):
    (tmp_path / "lines").write_text("\n" * 300_000)  # more than a pipe holds
    with (tmp_path / "lines").open() as file:
        process = start(stdin=file)
    answer(process)
    process.stdout.close()
    assert process.wait(timeout=120) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


def test_a_full_disk_is_an_error(start, lines, tmp_path):
    (tmp_path / "lines").write_text(joined(lines[:2]))
    with (tmp_path / "lines").open() as file, Path("/dev/full").open("w") as full:
        process = start(stdin=file, stdout=full)
        err = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 1
    assert err.endswith(
        "headwise: error: cannot write to standard output: No space left on device\n"
    )


def test_input_that_cannot_be_read_is_an_error(start, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    process = start(stdin=folder)
    os.close(folder)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, b"")
    assert b"headwise: error: cannot read standard input: Is a directory" in err
