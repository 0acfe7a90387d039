"""The names that script_look.py looks for, by what they betray (see tampering.py for the ids)."""

from __future__ import annotations

import re
import sys


def words(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Words that betray their purpose wherever they stand: in a text constant, or in a script that does not parse.
WORDS = {
    "recorder": re.compile(
        r"AUTOGRADER_|_autograder_|\bsitecustomize\b|\brank(?:\d+|\{[^}]*\}|)\.jsonl\b|"
        r"_dump_(?:fr|nccl)_trace|"
        r"\bTORCH_(?:FR|NCCL_TRACE)_BUFFER_SIZE\b|\bflight(?:\d+|\{[^}]*\})\.json\b"
    ),
    "outside": re.compile(
        r"/proc/(?!cpuinfo|meminfo|driver|version|stat\b|loadavg|uptime)|\bgradebook\b|nbgrader_config|"
        r"^/?proc/?$|^(?:proc/)?self/(?:environ|fd|mem|maps)\b|/etc/(?:passwd|shadow)|"
        r"\bTORCHELASTIC_ERROR_FILE\b|\bstdout\.log\b|\bstderr\.log\b"
    ),
    "native": re.compile(r"\bptrace\b|\bprocess_vm_(?:readv|writev)\b"),
    "rewrites": re.compile(r"\b(?:user|site)customize\.py\b|\bconftest\.py\b|\bsite-packages\b"),
}
ENVIRONMENT = {"LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT"}

# Dotted names, by what they betray; a name that ends with `.*` stands for the whole module.
_BY_KIND = {
    "native": "ctypes.* cffi.* _ctypes.*",
    "introspection": (
        "gc.get_objects gc.get_referrers gc.get_referents sys.settrace sys.setprofile sys._getframe "
        "sys._current_frames threading.settrace threading.setprofile inspect.currentframe inspect.stack "
        "inspect.getouterframes inspect.getinnerframes inspect.trace inspect.unwrap inspect.getclosurevars "
        "inspect.getmembers inspect.getmembers_static inspect.getattr_static traceback.walk_tb "
        "traceback.walk_stack tracemalloc.* bdb.* gc.unfreeze sys.modules.get sys.modules.values "
        "sys.modules.items sys.modules.copy sys.excepthook pydoc.* "
        "torch.overrides._get_current_function_mode_stack "
        "torch.overrides._get_current_function_mode torch._C._get_function_stack_at"
    ),
    "dynamic-code": (
        "marshal.* base64.* binascii.* codecs.decode runpy.* types.FunctionType types.CodeType code.* "
        "zlib.decompress bz2.* lzma.* importlib.import_module importlib.reload "
        "importlib.util.spec_from_file_location "
        "importlib.util.spec_from_loader importlib.util.module_from_spec importlib.machinery.* imp.* _imp.* "
        "importlib._bootstrap.* importlib._bootstrap_external.* _frozen_importlib.* pkgutil.resolve_name "
        "_frozen_importlib_external.* zipimport.* string.Formatter pickle.loads pickle.Unpickler "
        "cProfile.run pdb.* doctest.* logging.config.* rlcompleter.*"
    ),
    "process": (
        "os.fork os.forkpty os._exit os.abort os.killpg os.setsid os.setpgid os.setpgrp os.execv os.execve "
        "os.execvp os.execvpe os.execl os.execle os.execlp os.posix_spawn os.posix_spawnp os.ptrace "
        "os.setuid os.setgid os.close os.closerange os.dup2 os.ftruncate os.truncate os.pidfd_open pty.* "
        "psutil.process_iter psutil.pids"
    ),
    "signals": (
        "signal.signal signal.sigaction signal.pthread_sigmask signal.pthread_kill signal.setitimer "
        "signal.set_wakeup_fd signal.siginterrupt"
    ),
    "network": (
        "urllib.request.* http.client.* http.server.* requests.* httpx.* ftplib.* smtplib.* telnetlib.* "
        "socketserver.* asyncio.open_connection asyncio.start_server"
    ),
    "outside": "os.getppid sys.meta_path sys.path_hooks",
    "exit-hook": (
        "atexit.unregister atexit._clear atexit._run_exitfuncs weakref.finalize threading._register_atexit"
    ),
    "patched": "unittest.mock.*",
}
NAMES = {name: id for id, names in _BY_KIND.items() for name in names.split()}

# Attributes of anything at all, also where a text names them.
_ATTRIBUTES = {
    "introspection": (
        "f_back f_globals f_locals f_builtins tb_frame tb_next gi_frame cr_frame ag_frame cell_contents "
        "__closure__ __globals__ __wrapped__ __code__ __subclasses__ __builtins__ __getattribute__ "
        "__loader__ __get__ __match_args__ "
        "_getframe _getframemodulename _current_frames _current_exceptions get_objects get_referrers "
        "get_referents settrace setprofile load_module exec_module"
    ),
    "outside": "meta_path path_hooks path_importer_cache",
    "recorder": (
        "_dump_fr_trace _dump_fr_trace_json _dump_nccl_trace _dump_nccl_trace_json _reset_fr_recording "
        "_get_current_function_mode_stack"
    ),
}
ATTRIBUTES = {name: id for id, names in _ATTRIBUTES.items() for name in names.split()}
NAMED = re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, ATTRIBUTES)) + r")(?!\w)")
# By these, modules of Python lead to one another (`subprocess.sys`): what they lead to is what counts.
CROSSROADS = words("sys os builtins gc inspect ctypes subprocess importlib _thread threading atexit marshal")
# What runs or reads whatever it is given: to be called at once, not passed on.
READERS = words("getattr setattr delattr vars exec eval compile __import__")
TAKERS = words("operator.attrgetter operator.methodcaller")
# Modules that are known as such without an `import` of their own.
MODULES = CROSSROADS | words(
    "torch torch.distributed torch.distributed.distributed_c10d torch._C sys.modules"
)
# What may be asked of a module as a whole.
ASKS = words("getattr hasattr setattr delattr vars dir help print type id")
# Whose attributes an honest script reads by a name that it computes.
OPEN = words("self args opt options cfg config namespace")

SOCKETS = words("connect connect_ex listen accept create_connection create_server sendto recvfrom")
# What may be set in the libraries themselves: settings, not functions.
SETTINGS = re.compile(
    r"torch\.backends\.|torch\._dynamo\.config|sys\.(?:argv|path|stdout|stderr|stdin|tracebacklimit)\b|"
    r"sys\.dont_write_bytecode|warnings\.|logging\.|os\.environ$"
)
LIBRARIES = frozenset(sys.stdlib_module_names) | {"torch"}
# By what a script may tell one place or day from another.
PLACES = words(
    "os.getuid os.geteuid os.getlogin getpass.getuser platform.node socket.gethostname socket.getfqdn "
    "os.uname datetime.datetime.now datetime.datetime.today datetime.datetime.utcnow datetime.date.today "
    "time.localtime time.gmtime time.strftime os.getcwd pathlib.Path.cwd pathlib.Path.home uuid.getnode"
)
PLACE_VARIABLES = {"USER", "LOGNAME", "USERNAME", "HOME", "HOSTNAME", "COMPUTERNAME", "PWD", "TMPDIR"}
ASKED = words("startswith endswith find count index __contains__ __eq__")
EPOCH = 1e8   # seconds: a clock compared with more than that is compared with a date
