"""What only a failed launch's raw output holds, read from outputs as they really come."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.verdict.plain_text import decoded
from autograder.verdict.raw_output import exit_code, is_whole, own_frames, signals

WRONG = Path(__file__).resolve().parent / "wrong" / "projet-groupe"


def output(name: str) -> str:
    return decoded((WRONG / name / "sortie.txt").read_bytes())


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("code de sortie : 1", 1), ("Code de sortie du lanceur : 1.", 1), ("exit code: 1", 1),
        ("exit status 1", 1),
        ("$ echo $?\n1", 1),
        ("$ echo $?\n1\nlea@portable:~$", 1), ("PS C:\\> $LASTEXITCODE\n1\nPS C:\\>", 1),
        ("$? = 2", 2), ("code=0", 0), ("-15", -15),
        ("LASTEXITCODE 1\ncode de sortie : 1", 1),
        ("", None), ("  exitcode  : 1 (pid: 5460)", None), ("code de sortie :", None),
        ("exitcode  : -15 (pid: 3)", None),
        ("failed (exitcode: 1) local_rank: 0 (pid: 5460) of binary: python3", None), ("9" * 400, None),
    ],
)  # fmt: skip
def test_the_exit_code_that_was_noted(end: str, code: int | None) -> None:
    assert exit_code(f"saute 1\nentre 0\n{end}\n\n") == code


@pytest.mark.parametrize(
    ("name", "named"),
    [("right_terminal", ("SIGTERM",)), ("right_powershell", ("CTRL_C_EVENT",)),
     ("right_narrow_console", ("SIGTERM",)), ("no_skip", ()), ("cleaned_up", ())],
)  # fmt: skip
def test_the_signal_is_the_one_that_the_output_names(name: str, named: tuple[str, ...]) -> None:
    assert signals(output(name)) == named


def test_a_signal_broken_by_a_narrow_console() -> None:
    assert signals("Sending process 12 closing sig\nnal SIGT\nERM\nE1130 failed") == ("SIGTERM",)


def test_an_output_has_both_ends_or_is_not_whole() -> None:
    for name in ("right_terminal", "right_powershell", "right_narrow_console", "cleaned_up", "someone_else"):
        assert is_whole(output(name))
    for name in ("stdout_only", "typed_by_hand", "typed_whole", "no_skip"):
        assert not is_whole(output(name))


def test_the_frames_of_the_script_agree_with_it_or_not() -> None:
    script = (WRONG / "right_one_file.py").read_text(encoding="utf-8")
    real = output("someone_else")  # the real output of that very script
    assert [(frame.line, frame.agrees) for frame in own_frames(real, script)] == [(26, True)]
    assert [frame.agrees for frame in own_frames(real, "# une ligne de plus\n" + script)] == [False]
    assert [frame.agrees for frame in own_frames(output("right_terminal"), script)] == [False] * 3
    assert own_frames(real, "")[0].agrees is False
    assert own_frames(real, script, "autre.py") == () == own_frames(output("typed_by_hand"), script)


def test_a_frame_of_another_file_is_not_the_script_s() -> None:
    text = 'File "/x/mon_labo.py", line 1, in <module>\n    import os\n'
    text += 'File "C:\\\\x\\\\labo.py", line 1, in f\n    import os\n'
    assert [frame.line for frame in own_frames(text, "import os\n")] == [1]


@pytest.mark.parametrize("accents", ["é à", "Ú Ó", "Ã© Ã\xa0", "? ?", "\\xe9 \\xe0", "\ufffd \ufffd"])
def test_a_console_garbles_the_accents_of_a_quoted_line(accents: str) -> None:
    script = "import os\ndist.all_reduce(x)  # é à deux\n"
    text = f'File "C:\\x\\labo.py", line 2, in <module>\n    dist.all_reduce(x)  # {accents} deux\n'
    assert own_frames(text, script)[0].agrees
    assert not own_frames(text.replace("deux", "trois"), script)[0].agrees
