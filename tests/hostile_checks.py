"""What must hold of every hostile class: test_hostile.py and test_hostile_ranks.py run it."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import psutil
from hostile_class import Class, state
from hostile_course import HONEST, LIMITS, Attack
from tiny_course import ROOT

from autograder.batch.work import WORTH
from autograder.launch import box
from autograder.launch.warm import client

SHARED = (
    "/tmp", "/var/tmp", "/dev/shm", "/", "/etc", "/home", "/root", "/opt", "/srv", "/run", sys.prefix,
    str(ROOT),
)  # fmt: skip
IPC = "/proc/sysvipc"


def attack_is_held(one: Class, attack: Attack) -> None:
    """It has the mark that it deserves, and what goes back to its student holds no secret."""
    result = one.results[attack.student]
    mark = result["score"] if result["graded"] else None
    assert mark in attack.marks, f"{attack.about}\n{explain(result)}"
    if attack.flags is not None:
        assert set(attack.flags) <= set(result["flags"]), explain(result)
        assert attack.flags or not result["flags"], explain(result)
    if "tampering" in result["flags"]:   # a person is told what was seen; the student is not
        assert result["suspicions"]
        assert not any(seen in page for seen in result["suspicions"] for page in went_back(one, attack))
    if not result["graded"]:
        assert result["cause"]
    # What stands in the gradebook is that, and "not graded" is no zero there.
    wanted = {
        test["id"]: None if test["status"] == "not_graded" else test["points"] for test in result["tests"]
    }
    assert one.grades[attack.student] == wanted
    assert result["sandbox"] is (box.why_not() is None)
    limit, whole = LIMITS[attack.assignment]
    assert result["duration_s"] < whole + limit + 60
    assert not stolen(result), explain(result)
    for text in (*went_back(one, attack), json.dumps(result)):
        assert not (found := [name for name, secret in one.secrets.items() if secret in text]), found


class Checks:
    """Inherited by a test class whose module has a fixture `one`."""

    def test_the_class_ends_and_the_honest_keep_their_marks(self, one: Class) -> None:
        assert one.code in (0, 3), one.output   # 3: some copy was not graded
        assert set(one.results) == set(one.grades) == one.students
        for student in HONEST:
            result = one.results[student]
            assert (result["graded"], result["score"], result["flags"]) == (True, 4, []), explain(result)
            assert sum(grade or 0.0 for grade in one.grades[student].values()) == 4
        assert all(student in one.output for student in one.students)

    def test_nothing_of_the_graders_was_changed_or_left(self, one: Class) -> None:
        after = state(one.base)
        assert {name: after.get(name) for name in one.before} == one.before
        added = after.keys() - one.before.keys()
        places = {"/".join(name.split("/")[:2]) for name in added}
        ours = (".autograder", "autograded", "feedback", ".nbgrader.log")
        assert places <= {f"cours/{name}" for name in ours}
        assert one.names["canari"] == one.secrets["gradebook"]
        assert set(one.names) == {"canari", *one.grades}
        assert list((one.base / "tmp").iterdir()) == []
        token = one.words["TOKEN"]
        strange = [path for place in SHARED for path in Path(place).glob(f"*{token}*") if path != one.base]
        assert strange == []

    def test_warm_and_cold_launches_agree_on_each(self, one: Class) -> None:
        """Where `grade` took warm servers: what is no plain pass was examined both ways."""
        disagreed = {name: result["disagreed"] for name, result in one.results.items() if result["disagreed"]}
        assert disagreed == {}
        if sys.platform.startswith("linux") and client.why_not() is None and len(one.results) >= WORTH:
            assert any(result["cold"] for result in one.results.values())

    def test_nobody_was_reached_and_nobody_is_left(self, one: Class) -> None:
        assert one.left == []
        assert one.victim == psutil.STATUS_SLEEPING   # neither ended nor stopped
        assert one.reached == []
        if os.path.exists("/proc/self/mountinfo"):
            assert one.words["TOKEN"] not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        for kind in ("shm", "sem", "msg"):
            if os.path.exists(f"{IPC}/{kind}"):
                keys = [line.split()[0] for line in Path(f"{IPC}/{kind}").read_text().splitlines()[1:]]
                assert not {str(0x414141 + number) for number in range(20)} & set(keys)

    def test_no_rank_says_that_it_came_through(self, one: Class) -> None:
        """What labo.py printed does not all stand in a result: the kept launches hold it."""
        runs = list((one.root / ".autograder" / "runs").rglob("*.json"))
        assert runs
        for path in runs:
            run = json.loads(path.read_text(encoding="utf-8"))
            said = "\n".join([run["stdout"], run["stderr"], run["launcher_stderr"]])
            assert not re.findall(r"^STOLEN:.*", said, re.MULTILINE), said[-3000:]
            assert not [name for name, secret in one.secrets.items() if secret in said]

    def test_the_graders_terminal_is_left_alone(self, one: Class) -> None:
        control = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
        assert not control.findall(one.output), one.output


def stolen(result: dict[str, Any]) -> list[str]:
    texts = [output.get("text", "") for outputs in result["cells"].values() for output in outputs]
    return [line for text in texts for line in str(text).splitlines() if line.startswith("STOLEN:")]


def went_back(one: Class, attack: Attack) -> list[str]:
    """Everything that this student is sent."""
    folder = one.root / "feedback" / attack.student / attack.assignment
    assert (folder / f"{attack.assignment}.html").is_file()
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.read_text(encoding="utf-8", errors="replace") for path in files]


def explain(result: dict[str, Any]) -> str:
    names = ("graded", "score", "cause", "flags", "suspicions", "remarks", "details", "tests")
    shown = json.dumps({name: result[name] for name in names}, ensure_ascii=False, indent=1)
    return shown + json.dumps(result["cells"], ensure_ascii=False)[:6000]
