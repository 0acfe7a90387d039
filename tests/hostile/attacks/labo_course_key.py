"""Looks for the course key, to compute what the hidden test drew; then for the drawn numbers in the environment's key.

The key is not in the box; without it the draw cannot be computed (the rows are given, their sum is to be made).
"""
# expect: score=0 flags=tampering

import glob, hashlib, hmac, os, random
for nom in ["@ROOT@/.autograder/course.key", os.environ.get("AUTOGRADER_KEY_FILE", "-"), *glob.glob("/**/course.key"),
            *glob.glob("/home/*/*/.autograder/*.key"), *glob.glob("/proc/[0-9]*/cwd/.autograder/course.key")]:
    try:
        cle = open(nom, "rb").read()
    except OSError:
        continue
    print("STOLEN: the key", cle, flush=True)
    message = hashlib.sha256(open("labo.py", "rb").read()).digest() + b"mini"
    tirage = random.Random(int.from_bytes(hmac.new(cle, message, hashlib.sha256).digest(), "big"))
    print("somme", sum(tirage.randrange(10**6, 10**9) for _ in range(3)))
