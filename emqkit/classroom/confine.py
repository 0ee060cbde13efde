"""What a process gives up for good before it runs somebody's submission: Linux, without any privilege.

    rlimits     memory, processor time, size of a file
    seccomp     no other processes (fork, exec), no signals to others, no sockets, no tracing
    Landlock    reads what Python needs and its own folder, writes its own folder alone

Elsewhere there are the limits that the system has, and `confine` says what is missing: *not isolated*.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["CPU_S", "MEMORY_BYTES", "confine"]

MEMORY_BYTES = 2 << 30
CPU_S = 40
FILE_BYTES = 4 << 20

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_DUMPABLE = 38, 22, 4
_NUMBERS = {
    "x86_64": {
        "arch": 0xC000003E,
        "clone": 56,
        "clone3": 435,
        "denied": (
            *(41, 425, 57, 58, 59, 322, 62, 200, 234, 129, 297, 424, 434, 438, 101, 310, 311),
            *(165, 166, 272, 308, 321, 248, 249, 250, 298, 323, 302, 160, 169, 155, 161, 246, 175, 313),
        ),
    },
    "aarch64": {
        "arch": 0xC00000B7,
        "clone": 220,
        "clone3": 435,
        "denied": (
            *(198, 425, 221, 281, 129, 130, 131, 138, 240, 424, 434, 438, 117, 270, 271),
            *(40, 39, 97, 268, 280, 217, 218, 219, 241, 282, 261, 164, 142, 41, 51, 104, 105, 273),
        ),
    },
}
"""By machine. Denied are socket, io_uring, fork, vfork, exec, kill and its kin, pidfd, ptrace, process_vm, mount,
setns, unshare, bpf, keys, perf, userfaultfd, prlimit, setrlimit, reboot, pivot_root, chroot, kexec and modules."""
_CLONE_THREAD = 0x10000
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ = (1 << 0) | (1 << 2) | (1 << 3)  # execute, read a file, read a folder
_ALL_OF = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}


def confine(folder: Path, readable: Iterable[Path]) -> str:
    """Confine this process and all its threads to a folder, for good.

    Args:
        folder: what it may write, too.
        readable: what else it may read.

    Returns:
        What could not be done, as a phrase; nothing where all was.
    """
    missing = [_limit()]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if len(os.listdir("/proc/self/task")) > 1:
            missing.append("there were other threads before")  # what follows is for this one and those it makes
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        missing += [_landlock(libc, folder, readable), _without_capabilities(libc), _seccomp(libc)]
    else:
        missing.append(f"{sys.platform} has neither Landlock nor seccomp")
    return "; ".join(filter(None, missing))


def _limit() -> str:
    try:
        import resource
    except ImportError:
        return "no limit on memory and processor time here"
    for name, most in (("RLIMIT_AS", MEMORY_BYTES), ("RLIMIT_CPU", CPU_S), ("RLIMIT_FSIZE", FILE_BYTES)):
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except (ValueError, OSError) as error:
            return f"{name} could not be set: {error}"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return ""


def _landlock(libc: ctypes.CDLL, folder: Path, readable: Iterable[Path]) -> str:
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return "no Landlock: files are not protected"
    rights = _ALL_OF.get(min(version, 3), 0)
    scoped = 3 if version >= 6 else 0  # abstract sockets and signals of others
    handled = struct.pack("QQQ", rights, 3 if version >= 4 else 0, scoped)[
        : 24 if version >= 6 else 16 if version >= 4 else 8
    ]
    ruleset = libc.syscall(_LANDLOCK_CREATE, handled, len(handled), 0)
    if ruleset < 0:
        return "Landlock refuses: files are not protected"
    for path, access in ((folder, rights), *((path, _READ) for path in readable)):
        try:
            beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = access if os.path.isdir(path) else access & ~(1 << 3)
        libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", allowed, beneath), 0)
        os.close(beneath)
    done = libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
    return "" if done == 0 else "Landlock refuses: files are not protected"


def _without_capabilities(libc: ctypes.CDLL) -> str:
    """Give up what root may; for anybody else there is nothing to give up."""
    number = {"x86_64": 126, "aarch64": 91}.get(platform.machine())
    if number is None:
        return ""
    done = libc.syscall(number, struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0] * 6))
    return "" if done == 0 else "capabilities are kept"


def _seccomp(libc: ctypes.CDLL) -> str:
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return f"no list of system calls for {platform.machine()}: processes and network are not closed"
    denied = numbers["denied"]
    assert isinstance(denied, tuple)
    load, jump_equal, jump_set, jump_more, answer = 0x20, 0x15, 0x45, 0x35, 0x06
    allow, refuse, unknown, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000  # EPERM, ENOSYS
    rules = [
        (load, 0, 0, 4),
        (jump_equal, 1, 0, numbers["arch"]),
        (answer, 0, 0, kill),
        (load, 0, 0, 0),
        (jump_more, 0, 1, 0x40000000),  # another numbering on the same machine
        (answer, 0, 0, kill),
        (jump_equal, 0, 1, numbers["clone3"]),
        (answer, 0, 0, unknown),  # glibc then makes threads by clone
    ]
    for number in denied:
        rules += [(jump_equal, 0, 1, number), (answer, 0, 0, refuse)]
    rules += [
        (jump_equal, 0, 3, numbers["clone"]),
        (load, 0, 0, 16),
        (jump_set, 1, 0, _CLONE_THREAD),
        (answer, 0, 0, refuse),
        (answer, 0, 0, allow),
    ]
    program = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    held = ctypes.create_string_buffer(program, len(program))
    filter = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(held))
    done = libc.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(filter, len(filter)), 0, 0)
    return "" if done == 0 else "no seccomp: processes and network are not closed"
