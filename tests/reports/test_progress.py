"""The progress of a run."""

import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from dataclasses import replace

import pytest
from envwright.reports.live_progress import LiveProgress
from envwright.reports.printing import open_progress
from envwright.reports.progress import PlainProgress, RunProgress
from envwright.reports.result import EnvironmentResult
from rich.console import Console
from sample_results import ALL_PASS, FAILING, HOSTILE


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def result_of(name: str, **changes) -> EnvironmentResult:
    return replace(ALL_PASS, name=name, **changes)


def test_plain_progress_prints_start_and_end() -> None:
    stream = io.StringIO()
    with PlainProgress(["reverse-text", "gsm8k"], stream, clock=Clock()) as progress:
        progress.started("reverse-text")
        progress.stage("reverse-text", "venv")
        progress.stage("reverse-text", "smoke")
        progress.advance("reverse-text", 3, 30)
        progress.started("gsm8k")
        progress.cached("gsm8k")
        progress.finished(result_of("gsm8k"))
        progress.note("the index is slow")
        progress.finished(FAILING)
    assert stream.getvalue() == (
        "reverse-text: observing\n"
        "[1/2] gsm8k: pass from the cache\n"
        "the index is slow\n"
        "[2/2] reverse-text: fail in 8.1 s (RWD001, DST003)\n"
    )


def test_plain_progress_lists_running_after_silence() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress([f"environment-{number}" for number in range(6)], stream, clock=clock)
    for number in range(6):
        progress.started(f"environment-{number}")
    progress.stage("environment-0", "smoke")
    progress.advance("environment-0", 12, 30)
    clock.now = 19.0
    progress.break_silence()
    assert stream.getvalue() == "environment-0: observing\n"
    clock.now = 21.0
    progress.break_silence()
    progress.break_silence()
    assert stream.getvalue().splitlines()[1:] == [
        "still running: environment-0 (smoke 12/30, 21.0 s), environment-1 (starting, 21.0 s), "
        "environment-2 (starting, 21.0 s), environment-3 (starting, 21.0 s), 2 more"
    ]


def test_plain_progress_names_running_stage_and_time_limit() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(["gsm8k"], stream, clock=clock)
    progress.started("gsm8k")
    progress.stage("gsm8k", "rewards")
    progress.deadline("gsm8k", "rewards", 60.0)
    progress.deadline("gsm8k", "smoke", 30.0)
    clock.now = 21.0
    progress.break_silence()
    progress.deadline("gsm8k", "smoke", 0.0)
    clock.now = 42.0
    progress.break_silence()
    assert stream.getvalue().splitlines()[1:] == [
        "still running: gsm8k (rewards and smoke, 21.0 s, 39.0 s more at most)",
        "still running: gsm8k (rewards, 42.0 s, 18.0 s more at most)",
    ]


def test_plain_progress_escapes_notes() -> None:
    stream = io.StringIO()
    with PlainProgress(["gsm8k"], stream) as progress:
        progress.note(HOSTILE)
        progress.note("::error::owned")
    assert "\x1b" not in stream.getvalue()
    assert "##[" not in stream.getvalue()
    assert stream.getvalue().splitlines()[-1] == "\\x3a:error::owned"


class BrokenStream(Terminal):
    """A stream that is gone."""

    def write(self, _: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_progress_drawing_error_does_not_end_run(kind) -> None:
    with kind(["gsm8k"], BrokenStream()) as progress:
        progress.started("gsm8k")
        progress.stage("gsm8k", "venv")
        progress.note("hello")
        progress.finished(result_of("gsm8k"))


def test_progress_passes_errors_of_the_run_through() -> None:
    for kind in (PlainProgress, LiveProgress):
        with pytest.raises(KeyboardInterrupt), kind(["gsm8k"], Terminal()):
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("quiet", "stream", "term", "kind"),
    [
        (True, Terminal(), "xterm", RunProgress),
        (False, io.StringIO(), "xterm", PlainProgress),
        (False, Terminal(), "dumb", PlainProgress),
        (False, Terminal(), "xterm", LiveProgress),
    ],
)
def test_progress_kind_follows_the_stream(quiet: bool, stream, term: str, kind: type, monkeypatch) -> None:
    monkeypatch.setenv("TERM", term)
    with redirect_stderr(stream):
        assert type(open_progress([], quiet=quiet)) is kind


def drawn(progress: LiveProgress, *, height: int, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False, color_system=None)
    console.print(progress.draw(height))
    text = console.file.getvalue()
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_live_table_has_a_row_per_environment() -> None:
    clock = Clock()
    progress = LiveProgress(["reverse-text", "gsm8k", "word-sort", "later"], Terminal(), clock=clock)
    progress._console.width = 80
    progress.started("reverse-text")
    progress.stage("reverse-text", "smoke")
    progress.advance("reverse-text", 15, 30)
    progress.finished(result_of("gsm8k"))
    progress.finished(replace(FAILING, name="word-sort"))
    clock.now = 12.34
    assert drawn(progress, height=24).replace("⠋", "*") == (
        "environment      stage                                      time\n"
        "reverse-text  *  smoke         ━━━━━━━           15/30    12.3 s\n"
        "gsm8k            pass                                     cached\n"
        "word-sort        fail                                      8.1 s\n"
        "later            waiting\n"
        "2 of 4 done · 1 pass · 1 fail · 1 cached · 12.3 s"
    )


def test_live_table_of_many_shows_the_running_ones() -> None:
    names = [f"environment-{number}" for number in range(200)]
    progress = LiveProgress(names, Terminal(), clock=Clock())
    for name in names[:3]:
        progress.started(name)
    progress.finished(result_of(names[3], cached=False))
    lines = drawn(progress, height=24).splitlines()
    assert len(lines) == 5
    assert lines[-1] == "1 of 200 done · 1 pass · 3 running · 196 waiting · 0.0 s"


def test_progress_accepts_events_from_many_threads() -> None:
    names = [f"environment-{number}" for number in range(40)]
    for kind, stream in ((PlainProgress, io.StringIO()), (LiveProgress, Terminal())):
        with kind(names, stream) as progress, ThreadPoolExecutor(8) as pool:

            def observe(name: str, progress: RunProgress = progress) -> None:
                progress.started(name)
                progress.stage(name, "rewards")
                for done in range(50):
                    progress.advance(name, done, 50)
                progress.note(name)
                progress.finished(result_of(name))

            list(pool.map(observe, names))
        assert {row.state for row in progress.rows()} == {"finished"}
