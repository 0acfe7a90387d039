"""Makes labo.py a hard link to a file of the grader's (a regular file, then), or a pipe, a folder, a device.

There is nothing of the grader's to link in the box; a pipe is not read, so that nothing waits.
"""
# expect: score=0|not_graded

# %% cell labo
import os
for cible in ("@ROOT@/source/mini/mini.ipynb", "@ROOT@/.autograder/course.key", "@HOME@/.netrc", "@ROOT@/gradebook.db"):
    try:
        os.link(cible, "labo.py")
        print("STOLEN: linked", cible)
        break
    except OSError as erreur:
        print(type(erreur).__name__)
else:
    os.mkfifo("labo.py")
