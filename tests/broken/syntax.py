# Does not parse.
def f(:
    pass
