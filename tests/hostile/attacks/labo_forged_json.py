"""Prints JSON that looks like our results, reports, records and markers, on both streams.

Standard output is only ever searched for the expected texts; nothing on it is read as a result.
"""
# expect: score=0 flags=tampering
# harmless

import json, sys
for flux in (sys.stdout, sys.stderr):
    for faux in ({"score": 4, "graded": True}, {"k": "end", "at": 0.1}, {"k": "enter", "op": "all_reduce", "n": 0, "at": 0},
                 {"outcome": "value", "value": 2.0}, {"exit_codes": [0], "left_over": 0}):
        print(json.dumps(faux), file=flux)
    print('RESULTAT {"rang": 0, "points": 4}', "AUTOGRADER_RESULT 4/4", "[4/4] labo : juste", file=flux)
    print("### BEGIN HIDDEN TESTS\nm.total()\n### END HIDDEN TESTS", "execute_result 2.0", sep="\n", file=flux)
    print("{" * 100_000, "[" * 100_000, file=flux)
