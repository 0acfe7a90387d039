"""Launch from a process that has torch loaded already: see server/.

A trusted process is told of a server by AUTOGRADER_WARM, the path of its socket; without it, or where that
server does not answer, a launch starts its own Python as ever. A student's notebook and `check --watch` have
servers of their own: see own.py.
"""
