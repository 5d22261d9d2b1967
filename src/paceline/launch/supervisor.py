"""Runs one command and, when the pipe to its starter closes, ends everything below it.

python supervisor.py PIPE COMMAND ...

A process of its own, for a starter that was killed cannot clean up. Orphans below it become its
children (on Linux), also those that called `setsid`, as torchrun's workers do. It
ends as the command ends, with its exit code or signal; what the command left behind is ended too.
It stands on the standard library alone and starts without site packages, in a few milliseconds.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time

SUBREAPER, PARENT_DEATH_SIGNAL = 36, 1  # of prctl(2)
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them; programs expect the default
PATIENCE_S = 10.0  # a killed process that is still there after this hangs in the kernel
NOT_STARTED = 126


def supervise(pipe: int, command: list[str]) -> int:
    """Run the command; returns its wait status. -1: the starter has gone, and all is ended."""
    os.set_inheritable(pipe, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _prctl(SUBREAPER, 1)
    child = _started(command)
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _forward(number, child))
    status = _until_end(child, pipe, woken)
    _end_all(child)
    return status


def _started(command: list[str]) -> int:
    """Fork and run the command, in a process group of its own."""
    ours = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        for number in RESTORED:
            signal.signal(number, signal.SIG_DFL)
        _prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() == ours:
            os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]!r}: {error.strerror}\n".encode())
    os._exit(NOT_STARTED)


def _prctl(option: int, value: int) -> None:
    """Linux alone has it; elsewhere process groups must do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _forward(number: int, child: int) -> None:
    """To the command's process group, as a terminal does."""
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        os.kill(child, number)  # it has not made its group yet


def _until_end(child: int, pipe: int, woken: int) -> int:
    """The child's wait status; -1 where the starter went first."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid:
            continue
        ready, _, _ = select.select([pipe, woken], [], [])
        if pipe in ready:
            return -1
        os.read(woken, 4096)


def _end_all(child: int) -> None:
    """Kill until no process is left below this one."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for pid in {*below(os.getpid()), -child}:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def below(root: int) -> list[int]:
    """The processes that descend from `root`; none where the system does not tell."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    found, left = [], [root]
    while left:
        those = children.get(left.pop(), [])
        found += those
        left += those
    return found


def _parent(pid: str) -> int:
    """The parent of a process; 0 where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _end_likewise(status: int) -> None:
    """End with the same exit code, or of the same signal, without a core file of our own."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def main() -> None:
    """The command line."""
    status = supervise(int(sys.argv[1]), sys.argv[2:])
    if status == -1:
        os._exit(NOT_STARTED)
    _end_likewise(status)


if __name__ == "__main__":
    main()
