"""Tries to leave the box: mount, unshare, setns, chroot, setuid, device nodes, /proc/1/root, kernel files, keyrings.

No capability, no new privilege, no namespace to enter.
"""
# expect: score=2 flags=tampering
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))), flush=True)
import ctypes, stat
libc = ctypes.CDLL(None, use_errno=True)
def essai(nom, fait):
    try:
        if fait():
            print("STOLEN:", nom, flush=True)
    except (OSError, ValueError, AttributeError) as erreur:
        print(nom, type(erreur).__name__)
essai("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0)
essai("remount", lambda: libc.mount(None, b"/usr", None, 32 | 4096, None) == 0)
essai("umount", lambda: libc.umount2(b"/usr", 2) == 0)
essai("chroot", lambda: libc.chroot(b"/tmp") == 0)
essai("setuid", lambda: libc.setuid(0) == 0)
essai("setgid", lambda: libc.setgid(0) == 0)
for nom in ("mnt", "pid", "net"):
    essai("setns " + nom, lambda nom=nom: libc.setns(os.open(f"/proc/1/ns/{nom}", os.O_RDONLY), 0) == 0 and libc.mount(b"n", b"/mnt", b"tmpfs", 0, None) == 0)
essai("mknod", lambda: os.mknod("/tmp/disque", 0o600 | stat.S_IFBLK, os.makedev(8, 0)) is None)
essai("root", lambda: any(os.path.exists("/proc/1/root" + nom) for nom in ("@ROOT@/course.yaml", "/root/.bashrc", "/home")))
essai("fd", lambda: [nom for nom in os.listdir("/proc/self/fd") if "@ROOT@" in os.readlink("/proc/self/fd/" + nom)])
essai("kmsg", lambda: os.open("/dev/kmsg", os.O_RDONLY))
essai("core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
essai("sysrq", lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY))
essai("hostname", lambda: libc.sethostname(b"pirate", 6) == 0)
essai("nice", lambda: os.nice(-5) < 0)
essai("new user namespace with rights outside", lambda: libc.unshare(0x10000000) == 0 and libc.mount(b"/usr", b"/mnt", None, 4096, None) == 0)
essai("uid 0", lambda: os.geteuid() == 0)
