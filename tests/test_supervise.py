"""The supervisor runs one program in a folder, keeps it within bounds, and ends it with whoever asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from emqkit.servers import supervise

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a program is bounded on Linux only")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the signals are those of POSIX")
MB = 1 << 20


def started(folder: Path, code: str, resident: int = 0, address: int = 0) -> subprocess.Popen[bytes]:
    """A supervisor of a Python that runs this."""
    folder.mkdir(exist_ok=True)
    bounds = [str(folder), str(resident), str(address)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", supervise.__file__, *bounds, sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(supervisor: subprocess.Popen[bytes], *, close: bool = False) -> tuple[int, bytes, str]:
    """Its status, the program's process id, and what it passed on."""
    assert supervisor.stdin is not None and supervisor.stdout is not None and supervisor.stderr is not None
    with supervisor:
        try:
            pid = supervisor.stdout.readline()
            if close:
                supervisor.stdin.close()
            words = supervisor.stdout.read().decode()
            assert supervisor.stderr.read() == b""
            return supervisor.wait(60), pid, words
        finally:
            supervisor.kill()


def test_a_program_that_ends_by_itself_has_its_last_words_passed_on(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    code = "import os, sys; print(os.getpid()); print('a' * 3000); print(os.getcwd(), os.environ['LC_ALL']); "
    status, pid, words = ended(started(folder, f"{code} sys.stdout.flush(); os.write(2, b'last'); sys.exit(3)"))
    end = f"{folder.resolve()} C\nlast"
    assert status == 3
    assert words == f"{'a' * (2000 - len(end) - 1)}\n{end}"
    assert int(pid) != os.getpid()
    assert not folder.exists()
    status, pid, words = ended(started(tmp_path / "short", "import os; print(os.getpid(), os.environ['PATH'])"))
    assert (status, words) == (0, f"{int(pid)} {os.environ['PATH']}\n")


def test_a_program_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    command = [sys.executable, "-I", "-S", supervise.__file__, str(folder), "0", "0", str(tmp_path / "nothing")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"No such file or directory\n", b"")
    assert not folder.exists()


def test_when_its_input_closes_the_program_is_killed_and_the_folder_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    status, pid, words = ended(started(folder, sleeper), close=True)
    assert (status, words) == (256 - signal.SIGKILL, "")
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_what_is_written_to_its_input_ends_nothing(tmp_path: Path) -> None:
    supervisor = started(tmp_path / "own", "import time; time.sleep(0.3); raise SystemExit(4)")
    assert supervisor.stdin is not None
    supervisor.stdin.write(b"x" * 3000)
    supervisor.stdin.flush()
    assert ended(supervisor)[0] == 4


def test_a_supervisor_that_is_asked_to_leave_takes_the_program_along(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    supervisor = started(folder, "import time; time.sleep(600)")
    assert supervisor.stdin is not None and supervisor.stdout is not None
    with supervisor:
        pid = int(supervisor.stdout.readline())
        supervisor.terminate()
        assert supervisor.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not folder.exists()


@ON_LINUX
@pytest.mark.parametrize(
    ("resident", "address", "file", "core"),
    [(0, 0, False, False), (512 * MB, 0, True, True), (512 * MB, 4096 * MB, True, True), (0, 4096 * MB, False, False)],
)
def test_a_bounded_program_has_the_limits_it_was_given(
    tmp_path: Path, resident: int, address: int, file: bool, core: bool
) -> None:
    code = "import resource as r; print([r.getrlimit(n) for n in (r.RLIMIT_FSIZE, r.RLIMIT_CORE, r.RLIMIT_AS)])"
    shown = f"import sys; sys.path.append({resource_folder()!r}); {code}"
    import resource

    ours = [resource.getrlimit(n) for n in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_AS)]
    limits = [(16 * MB, 16 * MB) if file else ours[0], (0, 0) if core else ours[1]]
    limits.append((address, address) if address else ours[2])
    assert ended(started(tmp_path / "own", shown, resident, address))[2] == f"{limits}\n"


def resource_folder() -> str:
    """Where the module `resource` lies, which `-S` does not keep from being found but some builds do."""
    import resource

    return str(Path(getattr(resource, "__file__", None) or os.__file__).parent)


@ON_LINUX
def test_a_program_that_takes_more_memory_than_it_may_is_killed_and_that_is_said(tmp_path: Path) -> None:
    code = "import time; kept = bytearray(b'x' * (200 << 20)); time.sleep(600)"
    status, _, words = ended(started(tmp_path / "own", code, 100 * MB))
    assert (status, words) == (256 - signal.SIGKILL, "it wanted more than 100 MB of memory")


@ON_LINUX
def test_a_program_within_its_memory_is_let_be_and_one_that_is_refused_more_says_so(tmp_path: Path) -> None:
    fits = "import time; kept = bytearray(b'x' * (50 << 20)); time.sleep(0.2); print('done')"
    assert ended(started(tmp_path / "own", fits, 200 * MB))[2] == "done\n"
    refused = "print('Out Of Memory allocating 5 bytes')"
    assert ended(started(tmp_path / "own", refused, 300 * MB))[2] == "it wanted more than 300 MB of memory"
    assert ended(started(tmp_path / "own", refused))[2] == "Out Of Memory allocating 5 bytes\n"


@ON_LINUX
def test_a_program_that_writes_too_much_is_said_to_have_done_so(tmp_path: Path) -> None:
    code = "import signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nwhile True: sys.stdout.write('x' * 9999)"
    status, _, words = ended(started(tmp_path / "own", code, 500 * MB))
    assert (status, words) == (256 - signal.SIGXFSZ, "it wrote more than 16 MB to its server's log")
    killed = "import os, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGXFSZ)"
    assert ended(started(tmp_path / "own", f"print('mine', flush=True); {killed}"))[2] == "mine\n"
