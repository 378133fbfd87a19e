"""A started program's group, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from worker.child import Child


def start(script: str) -> Child:
    words = ["/bin/bash", "-c", script]
    return Child(subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True))


def told(child: Child) -> bytes:
    assert child.popen.stdout is not None
    with child.popen.stdout as stream:
        return stream.read()


def test_a_program_ends_with_its_status() -> None:
    child = start("exit 3")
    assert child.gone.wait(10)
    assert child.code == 3
    assert told(child) == b""


def test_a_signal_reaches_the_whole_group() -> None:
    """Children too: their output ends with them."""
    child = start("sleep 60 & sleep 60 & wait")
    child.kill(signal.SIGTERM)
    assert told(child) == b""
    assert child.gone.wait(10)
    assert child.code == -15


def test_children_in_the_group_end_with_the_program() -> None:
    child = start("sleep 60 & echo on")
    assert told(child) == b"on\n"
    assert child.gone.wait(10)
    assert child.code == 0


def test_no_signal_is_sent_once_the_number_may_be_anothers(monkeypatch: object) -> None:
    child = start("true")
    assert child.gone.wait(10)
    told(child)
    with subprocess.Popen(["sleep", "60"], process_group=0) as other:
        child.popen.pid = other.pid  # as the kernel may give the number to another program
        child.kill(signal.SIGKILL)
        assert os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        other.kill()


def test_whoever_asks_is_called_when_it_has_ended_and_at_once_where_it_has() -> None:
    child, called = start("read"), threading.Event()
    child.when_gone(called.set)
    assert called.wait(10)
    assert child.gone.is_set()
    again: list[bool] = []
    child.when_gone(lambda: again.append(child.gone.is_set()))
    assert again == [True]
    told(child)
