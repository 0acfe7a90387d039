"""Connects to every port of 127.0.0.1 where another copy's ranks could meet, and speaks to whoever listens.

Each launch has a loopback of its own: nobody listens.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import socket
for port in [29400, 29500, 29531, int("@PORT@"), *range(29500, 29600), *range(32768, 33268)]:
    with socket.socket() as prise:
        prise.settimeout(0.2)
        # A socket that was given this very port as its own meets itself.
        if prise.connect_ex(("127.0.0.1", port)) == 0 and prise.getsockname() != prise.getpeername():
            print("STOLEN: somebody listens on", port, flush=True)
            prise.sendall(b"@TOKEN@")
