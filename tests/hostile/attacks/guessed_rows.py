"""Guesses the hidden rows: prints thousands of sums, in the hope that one of them is right.

What can be printed is limited, and the rows are drawn with the course key from far more numbers.
"""
# expect: score=0
# harmless

import random
for nombre in range(30_000):
    print("somme", random.randrange(3 * 10**6, 3 * 10**9))
