"""The doctor names what is wrong and what to do; the trial launch is real."""

from __future__ import annotations

import json
import socket
import sys
import tomllib
from pathlib import Path

import pytest
import tiny_course

from autograder import doctor


@pytest.fixture(scope="module")
def torch_says() -> dict[str, object]:
    return doctor.ask_torch()


def test_this_python_and_its_torch_are_fine(torch_says: dict[str, object]) -> None:
    assert doctor.check_python(sys.version_info[:2]).status == "ok"
    assert [finding.status for finding in doctor.check_torch(torch_says)] == ["ok", "ok"]


def test_an_old_python_is_told_which_one_to_take() -> None:
    finding = doctor.check_python((3, 9))
    assert finding.status == "fail" and "3.11" in finding.advice


def test_what_is_asked_for_is_what_the_package_needs(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=" + ".".join(map(str, doctor.MINIMUM_PYTHON))
    assert "torch>=" + ".".join(map(str, doctor.MINIMUM_TORCH)) in project["dependencies"]


def test_no_torch_says_how_to_install_the_cpu_build() -> None:
    (finding,) = doctor.check_torch({"error": "ModuleNotFoundError: No module named 'torch'"})
    assert finding.status == "fail"
    assert "No module named 'torch'" in finding.found and "pytorch.org" in finding.advice


def test_a_python_that_cannot_be_started_is_a_finding(tmp_path: Path) -> None:
    assert "error" in doctor.ask_torch(str(tmp_path / "python"))


def test_an_old_torch_and_a_torch_without_gloo() -> None:
    torch, gloo = doctor.check_torch({"version": "2.4.1+cpu", "gloo": False, "gpus": []})
    assert (torch.status, gloo.status) == ("warn", "fail")
    assert "2.13" in torch.advice


def test_a_busy_port_is_a_remark_with_another_port() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        finding = doctor.check_port(port)
    assert finding.status == "warn" and "--master_port" in finding.advice
    assert str(port) in finding.title


def test_a_hostname_without_an_address() -> None:
    finding = doctor.check_hostname("no-such-host.invalid")
    assert finding.status == "warn" and "--master_addr=127.0.0.1" in finding.advice


def test_torchrun_of_another_python_and_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: str(tmp_path / name))
    assert doctor.check_torchrun().status == "warn"
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert "torch.distributed.run" in doctor.check_torchrun().advice


def test_a_full_disk_and_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor.check_disk(tmp_path / "absent").status == "fail"
    monkeypatch.setattr(doctor, "MINIMUM_DISK_GIB", 2.0**40)
    assert doctor.check_disk(tmp_path).status == "fail"


def test_little_memory_is_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MINIMUM_MEMORY_GIB", 2.0**40)
    assert doctor.check_memory().status == "warn"


def test_a_file_that_hides_a_module_is_named(tmp_path: Path) -> None:
    assert doctor.check_files(tmp_path).status == "ok"
    (tmp_path / "random.py").touch()
    finding = doctor.check_files(tmp_path)
    assert finding.status == "fail" and "random.py" in finding.found


def test_a_course_yaml_that_no_other_command_accepts_is_to_be_mended(tmp_path: Path) -> None:
    assert list(doctor.check_course(tmp_path)) == []
    yaml = tiny_course.COURSE.replace("LATE", "none").replace("[DATA]", "[]")
    (tmp_path / "course.yaml").write_text(yaml, encoding="utf-8")
    assert [one.status for one in doctor.check_course(tmp_path)] == ["ok"]
    (tmp_path / "course.yaml").write_text(yaml.replace("nproc:", "nprocs:"), encoding="utf-8")
    (finding,) = doctor.check_course(tmp_path)
    assert finding.status == "fail" and "\n" not in finding.found
    assert "launch.nproc is missing" in finding.found


def test_gpus_are_a_fact_not_a_fault() -> None:
    assert doctor.check_gpu({"gpus": []}).status == "ok"
    assert "H200" in doctor.check_gpu({"gpus": ["NVIDIA H200"]}).found


def test_without_the_launch_the_answer_is_quick_and_readable(tmp_path: Path) -> None:
    findings = list(doctor.examine(launch=False, folder=tmp_path))
    shown = doctor.report(findings)
    assert "launch" not in {finding.id for finding in findings}
    assert all(finding.title in shown for finding in findings)
    data = json.loads(json.dumps(doctor.as_json(findings)))
    assert data["ready"] is True
    assert {check["id"] for check in data["checks"]} >= {
        "python",
        "torch",
        "gloo",
        "torchrun",
        "port",
        "hostname",
        "gpu",
        "disk",
        "memory",
        "versions",
    }


def test_the_sum_up_counts_what_must_be_mended() -> None:
    wrong = doctor.Finding("x", "fail", "x", "y", "z")
    assert "1 point" in doctor.report([wrong])
    assert doctor.as_json([wrong])["ready"] is False


@pytest.mark.launch
def test_the_trial_launch_is_real() -> None:
    finding = doctor.check_launch()
    assert finding.status == "ok", finding
