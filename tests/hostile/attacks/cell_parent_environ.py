"""Reads the environment, the command line and the memory of every process that it can see, its parents first.

The grader's environment is not inherited, and its processes are in another pid namespace.
"""
# expect: score=0 flags=none

# %% cell reponse
import os
for numero in [str(os.getppid()), "1", "@PARENT@", *filter(str.isdigit, os.listdir("/proc"))]:
    for fichier in ("environ", "cmdline"):
        try:
            lu = open(f"/proc/{numero}/{fichier}", "rb").read().replace(b"\0", b"\n").decode("utf-8", "replace")
        except OSError:
            continue
        print(numero, lu)
        if "@ROOT@" in lu or "victime-@TOKEN@" in lu:
            print("STOLEN: a process of the grader's", lu)
print(dict(os.environ))
