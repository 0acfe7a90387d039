"""Prints terminal control sequences, a fake table, a fake prompt, null bytes and invalid UTF-8, and dies of them.

What graders see on their terminal holds no control sequence of a student's.
"""
# expect: score=0
# harmless

import sys
sortie = sys.stdout.buffer
sortie.write(b"somme \x1b[2J\x1b[H\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x07\x1b[31m4/4\x1b[0m\x9b31m\r\n")
sortie.write(b"somme \x1b[8m\xff\xfe\x00\x00\xe2\x80\xae 0 \x08\x08\x08\x7f\x1b[?1049h\n")
sys.stderr.write("\x1b[2J\x1b]0;pwned\x07 somme 0\n")
raise RuntimeError("\x1b]0;pwned\x07\x1b[2K\r[bold]somme[/bold] 4/4\n\x1b[1A")
