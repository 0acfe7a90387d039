"""Notebooks: read a copy, mend it, run it apart from its tests, and give the result to nbgrader."""
