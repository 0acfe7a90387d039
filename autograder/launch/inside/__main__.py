"""Process 1 of a box: prepares its folders, gives up its rights, runs the agents, hands back what they left.

Run by bubblewrap as `python -I -S inside/`, standard library only. Standard input: the job, one line of JSON
(see processes.py), then one letter per demand (`d`: have the ranks say where they stand, then stop); its end
asks to stop. Standard output: a line when the agents are about to start, a line of status when all has ended,
then files, each a line of JSON and its bytes. The agents have neither of the two, and cannot look into this
process: what it says of them cannot be forged.
"""

from __future__ import annotations

import json
import os

from _box_agents import Agents  # type: ignore[import-not-found]
from _box_files import copy, hand_back  # type: ignore[import-not-found]
from _box_rights import give_up  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    job, rest = _read_job()
    for source, target in job["copies"]:
        copy(source, target, job["most_copied"])
    for folder in job["folders"]:
        os.makedirs(folder, exist_ok=True)
    if job["user"] is not None:   # we are root
        _own(job["own"], job["user"])
    give_up(job["user"], job["filter"])
    _say({"ready": True})
    agents = Agents(job, rest)
    agents.run()
    left_over = agents.end_all()
    ends = {"exit_codes": agents.exit_codes(), "left_over": left_over, "limit": agents.limit}
    _say({**ends, "warm": agents.warm})
    for name, data in agents.printed():
        _say({"path": name, "size": len(data)})
        _write(data)
    hand_back(job["back"], job["most_back"], job["most_of_one"], _say, _write)
    os._exit(0)   # nothing to tidy


def _read_job() -> tuple[dict[str, Any], bytes]:
    data = b""
    while b"\n" not in data:
        more = os.read(0, 65536)
        if not more:
            os._exit(1)   # nobody wants it any more
        data += more
    line, _, rest = data.partition(b"\n")
    return json.loads(line), rest


def _say(line: dict[str, Any]) -> None:
    _write((json.dumps(line) + "\n").encode())


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data):]


def _own(tops: list[str], user: int) -> None:
    for top in tops:
        for place, folders, files in os.walk(top):
            os.chown(place, user, user)
            for name in [*folders, *files]:
                os.chown(os.path.join(place, name), user, user)


if __name__ == "__main__":
    main()
