"""Writes what the launcher reads: status.json, job.json, the agents' outputs, other kept Runs, then kills its supervisor.

Only what the ranks print and record comes back; what the launcher keeps is out of reach, or read as data that
proves nothing. The printed text is wrong.
"""
# expect: score=0|not_graded flags=tampering

import glob, json, os, signal
for nom in [*glob.glob("/tmp/autograder-*/*"), *glob.glob("../*"), *glob.glob("@ROOT@/.autograder/runs/**/*.json", recursive=True)]:
    try:
        if nom.endswith((".json", ".out", ".err")):
            open(nom, "w").write(json.dumps({"exit_codes": [0], "left_over": 0, "stdout": "somme 1", "ranks": []}))
            if "runs" in nom:
                print("STOLEN: wrote", nom, flush=True)
    except OSError:
        pass
os.kill(os.getppid(), signal.SIGKILL)
