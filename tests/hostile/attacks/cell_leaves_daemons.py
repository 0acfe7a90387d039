"""Leaves daemons behind (setsid, double fork, another environment, another name) that rewrite labo.py later on.

The box ends with its first process: nobody is left when labo.py is read and launched.
"""
# expect: score=0|not_graded

# %% cell labo
import os, subprocess, sys, time
code = """
import time
# @TOKEN@
while True:
    open('labo.py', 'w').write("print('somme', 1)")
    time.sleep(0.05)
"""
subprocess.Popen(["setsid", sys.executable, "-c", code], env={}, start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, ["kworker/0:1", "-c", code], {})
    os._exit(0)
time.sleep(0.5)
