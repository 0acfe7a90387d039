"""`autograder …`: one parser, one plain function per command; the integer it returns is the exit code.

Commands live in `autograder.commands`; each imports what it needs when it runs, so that `--help` is instant
and a student's machine never needs the grader's packages.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from autograder import __version__

INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autograder", description="An auto-graded course on distributed PyTorch."
    )
    parser.add_argument("--version", action="version", version=f"autograder {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _student_commands(commands)
    _grader_commands(commands)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _student_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser("run", help="launch one labo.py, show each rank and the diagnosis")
    run.add_argument("labo", metavar="LABO", help="the script to launch")
    run.add_argument("--nproc", type=int, metavar="N", help="processes to launch (default: the course's, 2)")
    run.add_argument(
        "--env",
        action="extend",
        nargs="+",
        default=[],
        metavar="K=V",
        help="variables for the script, after LABO",
    )
    run.add_argument("--timeout", type=float, metavar="S", help="seconds before the launch is stopped")
    _json_option(run)

    check = commands.add_parser(
        "check", help="run an assignment's tests on a labo.py, a notebook or a folder"
    )
    check.add_argument("assignment", metavar="ASSIGNMENT")
    check.add_argument(
        "path", metavar="PATH", nargs="?", help="default: the assignment's folder, or this one"
    )
    check.add_argument("--watch", action="store_true", help="check again at each save, until Ctrl-C")
    _json_option(check)

    pack = commands.add_parser("pack", help="write the zip to upload, and say what is missing in it")
    pack.add_argument("assignment", metavar="ASSIGNMENT")
    pack.add_argument("--id", metavar="ID", dest="student", help="your student id (default: the login name)")
    pack.add_argument("--from", metavar="FOLDER", dest="folder", help="where the notebook is (default: here)")

    doctor = commands.add_parser(
        "doctor", help="is this machine ready for two processes, and what is there to do?"
    )
    doctor.add_argument("--no-launch", action="store_true", help="skip the trial launch (about ten seconds)")
    doctor.add_argument(
        "--job", metavar="FILE", help="read what a Slurm job wrote instead, and say what went wrong in it"
    )
    _json_option(doctor)

    commands.add_parser("course", help="the course's facts and dates, from course.yaml")


def _grader_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    collect = commands.add_parser("collect", help="fill submitted/ from what came in (grader)")
    collect.add_argument(
        "source", metavar="DIR|ZIP", nargs="?", help="what came in; zips of zips and Moodle's are read"
    )
    collect.add_argument(
        "--exchange", action="store_true", help="instead: what students handed in through nbgrader's exchange"
    )

    grade = commands.add_parser("grade", help="grade submitted/: marks, feedback, table (grader)")
    grade.add_argument("assignments", metavar="ASSIGNMENT", nargs="*", help="default: all")
    grade.add_argument("--student", action="extend", nargs="+", default=[], metavar="ID", help="only these")
    grade.add_argument(
        "--jobs", type=_count, metavar="N",
        help="copies examined at once (default: two for each core; one for two cores with --cold)",
    )
    grade.add_argument(
        "--cold", action="store_true", help="have each launch start its own Python, as torchrun does"
    )
    grade.add_argument("--force", action="store_true", help="examine unchanged copies again")
    grade.add_argument(
        "--executor", choices=("local", "slurm"), default="local",
        help="where copies are examined: this machine, or tasks of a Slurm cluster",
    )  # fmt: skip
    grade.add_argument(
        "--slurm-option", action="append", default=[], metavar="KEY=VALUE",
        help="an option of sbatch, without its dashes: partition=short, time=60, mem=8G; may be repeated",
    )  # fmt: skip
    grade.add_argument(
        "--chunk", type=_count, metavar="K", help="copies in one Slurm task (default: 50 tasks at most)"
    )
    grade.add_argument(
        "--sandbox",
        choices=("yes", "auto", "no"),
        default="yes",
        help="yes (default): refuse where none can be made; auto: use one where it can",
    )
    grade.add_argument(
        "--no-sandbox",
        action="store_const",
        const="no",
        dest="sandbox",
        help="accept that students' code runs as you; stands in every result",
    )

    _after_grading(commands)

    release = commands.add_parser("release", help="prove the assignments, then write release/ (instructor)")
    release.add_argument("assignments", metavar="ASSIGNMENT", nargs="*", help="default: all")
    release.add_argument(
        "--check", action="store_true", help="prove and compare only; never refuses on a date"
    )
    release.add_argument(
        "--as-of", metavar="DATE", help="another day for today: ISO 8601, or from the session: --as-of=-P7D"
    )
    release.add_argument("--bundle", metavar="OUT.zip", help="also write what students get")
    release.add_argument("--force", action="store_true", help="release after the assignment's due date")


def _after_grading(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = commands.add_parser("report", help="write the class page, one HTML file (grader)")
    report.add_argument("assignments", metavar="ASSIGNMENT", nargs="*", help="default: all that have a copy")
    report.add_argument("--out", metavar="FILE.html", help="default: report/classe.html of the course")
    report.add_argument(
        "--formgrader", metavar="URL", help="the Jupyter server of its links (default: localhost:8888)"
    )

    export = commands.add_parser("export", help="write the marks, as CSV, for Moodle or Gradescope (grader)")
    export.add_argument("assignments", metavar="ASSIGNMENT", nargs="*", help="default: all that have a copy")
    export.add_argument("--out", metavar="PATH", help="default: in export/ of the course")
    export.add_argument(
        "--excel", action="store_true", help='CSV for a French Excel: byte-order mark, ";", decimal commas'
    )
    export.add_argument(
        "--moodle", metavar="WORKSHEET.csv", help="fill the grading worksheet that Moodle offers for download"
    )
    export.add_argument("--rescale", action="store_true", help="convert marks to Moodle's maximum grade")
    export.add_argument("--gradescope", action="store_true", help="a results.json for each copy")


def _count(written: str) -> int:
    """A whole number from 1 on."""
    if not written.strip().isdecimal() or (number := int(written)) < 1:
        raise argparse.ArgumentTypeError(f"{written!r} is not a whole number from 1 on")
    return number


def _json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON on standard output, and nothing else")


def main(argv: Sequence[str] | None = None) -> int:
    _speak_utf8()
    try:
        given = _joined(sys.argv[1:] if argv is None else argv)
        arguments, unknown = build_parser().parse_known_args(given)
        if unknown:  # told with the options of the command that was typed
            arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `autograder run … | head`: nobody reads any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a folder that is read-only, a disk that is full: the machine's, not our fault
        if error.filename is None:
            raise
        from autograder.commands import usage
        from autograder.messages import text

        return usage(text("cli.no-access", path=error.filename, why=error.strerror or error))


def _joined(typed: Sequence[str]) -> list[str]:
    """`--as-of -P7D` as `--as-of=-P7D`: argparse would take the duration for an option."""
    joined: list[str] = []
    for word in typed:
        if joined and joined[-1] == "--as-of" and word.startswith("-P"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _dispatch(arguments: argparse.Namespace) -> int:
    from autograder.commands import exchange, grader, student

    match arguments.command:
        case "run":
            return student.run(
                Path(arguments.labo),
                nproc=arguments.nproc,
                env=arguments.env,
                timeout=arguments.timeout,
                as_json=arguments.json,
            )
        case "check":
            path = Path(arguments.path) if arguments.path else None
            return student.check(
                arguments.assignment, path, as_json=arguments.json, watch=arguments.watch
            )
        case "pack":
            folder = Path(arguments.folder) if arguments.folder else None
            return student.pack(arguments.assignment, arguments.student, folder)
        case "doctor":
            if arguments.job:
                return student.doctor_job(Path(arguments.job), as_json=arguments.json)
            return student.doctor(launch=not arguments.no_launch, as_json=arguments.json)
        case "course":
            return student.course()
        case "collect":
            return grader.collect(Path(arguments.source) if arguments.source else None, arguments.exchange)
        case "grade":
            return grader.grade(
                arguments.assignments,
                arguments.student,
                sandbox=arguments.sandbox,
                jobs=arguments.jobs,
                force=arguments.force,
                executor=arguments.executor,
                slurm=arguments.slurm_option,
                chunk=arguments.chunk,
                cold=arguments.cold,
            )
        case "report":
            return exchange.report(
                arguments.assignments,
                out=Path(arguments.out) if arguments.out else None,
                formgrader=arguments.formgrader,
            )
        case "export":
            return exchange.export(
                arguments.assignments,
                out=Path(arguments.out) if arguments.out else None,
                excel=arguments.excel,
                moodle=Path(arguments.moodle) if arguments.moodle else None,
                rescale=arguments.rescale,
                gradescope=arguments.gradescope,
            )
        case _:
            bundle = Path(arguments.bundle) if arguments.bundle else None
            return grader.release(
                arguments.assignments,
                check_only=arguments.check,
                as_of=arguments.as_of,
                bundle=bundle,
                force=arguments.force,
            )


def _speak_utf8() -> None:
    # A pipe on Windows, or LC_ALL=C, would otherwise end a French sentence with UnicodeEncodeError.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(main())
