"""What a test draws depends on the key, the script and the label, and on nothing else."""

import pytest

from autograder import NotGraded
from autograder.verdict import draw


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "labo.py"
    path.write_bytes(b"print(1)\n")
    return path


def numbers(label="ex2-rows"):
    return [draw.drawn(label).randint(0, 10**9) for _ in range(2)]


def test_a_regrade_draws_the_same(script):
    assert len(set(numbers())) == 1


def test_label_script_and_key_each_change_the_draw(script, tmp_path, monkeypatch):
    seen = {numbers()[0], numbers("ex3-rows")[0]}
    script.write_bytes(b"print(2)\n")
    seen.add(numbers()[0])
    other = tmp_path / "other.key"
    other.write_bytes(b"another")
    monkeypatch.setenv("AUTOGRADER_KEY_FILE", str(other))
    seen.add(numbers()[0])
    assert len(seen) == 4


def test_the_draw_is_the_same_on_every_machine(script):
    assert numbers()[0] == 397510406
    assert draw.drawn("x", "absent.py").random() == draw.drawn("x", "absent.py").random()


def test_a_student_has_the_public_key(script, monkeypatch):
    graded = numbers()[0]
    monkeypatch.delenv("AUTOGRADER_KEY_FILE")
    assert draw._key() == draw.PUBLIC_KEY
    assert numbers()[0] != graded


def test_an_unreadable_key_is_not_the_students_fault(script, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_KEY_FILE", "/nowhere/course.key")
    with pytest.raises(NotGraded, match=r"/nowhere/course\.key"):
        draw.drawn("x")
