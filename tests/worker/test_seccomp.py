"""The filter of system calls, run by an interpreter of its own for each processor, and compared with its table."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker import seccomp
from worker.seccomp import FAMILIES, MACHINES, TERMINAL_TRICKS

ALLOW, KILL = "allow", "kill"
ANSWERS = {0x7FFF0000: ALLOW, 0x80000000: KILL}
"""SECCOMP_RET_ALLOW and SECCOMP_RET_KILL_PROCESS; SECCOMP_RET_ERRNO has its number in the lower half."""
MOST_INSTRUCTIONS = 4096
"""BPF_MAXINSNS of linux/bpf_common.h."""
NUMBERS = {
    # socket, socketpair, clone, clone3, ioctl; of arch/x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h.
    "x86_64": (41, 53, 56, 435, 16),
    "aarch64": (198, 199, 220, 435, 29),
}
EACH = pytest.mark.parametrize("machine", MACHINES)
WORDS = st.integers(0, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Call:
    """A system call as a filter sees it (struct seccomp_data)."""

    number: int
    arch: int
    arguments: tuple[int, ...] = ()

    def packed(self) -> bytes:
        arguments = (*self.arguments, *[0] * 6)[:6]
        return struct.pack("=IIQ6Q", self.number & 0xFFFFFFFF, self.arch, 0, *arguments)


def answer(program: bytes, call: Call) -> str | int:
    """Return what a filter does with a call: it is allowed, ends the process, or fails with a number.

    This is classic BPF as linux/filter.h and seccomp(2) describe it, with the instructions that a filter may have.
    """
    code = list(struct.iter_unpack("=HBBI", program))
    data, accumulator, at = call.packed(), 0, 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        match operation:
            case 0x20:  # BPF_LD | BPF_W | BPF_ABS: aligned, within the data
                assert value % 4 == 0
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
                at += if_true if accumulator == value else if_false
            case 0x35:  # BPF_JMP | BPF_JGE | BPF_K
                at += if_true if accumulator >= value else if_false
            case 0x45:  # BPF_JMP | BPF_JSET | BPF_K
                at += if_true if accumulator & value else if_false
            case 0x06:  # BPF_RET | BPF_K
                return ANSWERS.get(value & 0xFFFF0000) or int(value & 0xFFFF)
            case _:
                pytest.fail(f"a filter has no instruction {operation:#x}")


def asked(machine: str, number: int, *arguments: int) -> str | int:
    return answer(seccomp.program(machine), Call(number, MACHINES[machine].audit, arguments))


def wanted(machine: str, number: int, arguments: tuple[int, ...]) -> str | int:
    """Return what the table says, in another way than the filter does."""
    socket, socketpair, clone, clone3, ioctl = NUMBERS[machine]
    low = [each & 0xFFFFFFFF for each in arguments]
    if machine == "x86_64" and number >= 0x40000000:
        return errno.EPERM
    if number in MACHINES[machine].numbers.values():
        return errno.EPERM
    if number in {clone3, FALLOCATE[machine]}:
        return errno.ENOSYS if number == clone3 else errno.EOPNOTSUPP
    if number in {socket, socketpair} and low[0] not in FAMILIES:
        return errno.EAFNOSUPPORT
    namespaces = any(low[0] & flag for flag in SPACES)
    if (number == clone and namespaces) or (number == ioctl and low[1] in TERMINAL_TRICKS):
        return errno.EPERM
    return ALLOW


FALLOCATE = {"x86_64": 285, "aarch64": 47}
SPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWNS, -NEWCGROUP, -NEWUTS, -NEWIPC, -NEWUSER, -NEWPID, -NEWNET."""


@EACH
@given(
    number=st.integers(0, 500) | st.integers(0, 2**32 - 1),
    first=st.integers(0, 50) | WORDS,
    second=st.sampled_from(TERMINAL_TRICKS) | WORDS,
)
@example(number=41, first=40, second=0)
@example(number=198, first=2**40 + 40, second=0)
@example(number=0xFFFFFFFF, first=0, second=0)
@example(number=16, first=3, second=2**32 + 0x5412)
def test_the_filter_does_what_the_table_says(machine: str, number: int, first: int, second: int) -> None:
    assert asked(machine, number, first, second) == wanted(machine, number, (first, second))


@EACH
def test_every_number_is_answered_as_the_table_says(machine: str) -> None:
    for number in range(1024):
        for first in (0, 1, 2, 3, 16, 17, 38, 40, 0x11, 0x10000011):
            assert asked(machine, number, first, 0x5412) == wanted(machine, number, (first, 0x5412)), number


@EACH
def test_another_processors_calls_end_the_process(machine: str) -> None:
    """i386 on x86_64 and arm on aarch64 number theirs otherwise."""
    i386, arm, other = 0x40000003, 0x40000028, *[each.audit for name, each in MACHINES.items() if name != machine]
    for arch in (i386, arm, other, 0):
        for number in range(500):
            assert answer(seccomp.program(machine), Call(number, arch)) == KILL


@EACH
@pytest.mark.parametrize("flag", SPACES)
def test_no_process_is_made_with_a_new_namespace(machine: str, flag: int) -> None:
    clone, fork = NUMBERS[machine][2], 0x01200011
    assert asked(machine, clone, flag | fork) == errno.EPERM
    assert asked(machine, clone, 2**32 * flag | fork) == ALLOW  # the upper half is no flag of clone's
    assert asked(machine, clone, fork) == ALLOW
    assert asked(machine, clone, 0x003D0F00) == ALLOW  # a thread


@EACH
def test_what_programs_live_on_is_allowed(machine: str) -> None:
    """read, write, mmap, execve, wait4, futex, ioctl of a terminal, and the sockets of the machine's own kind."""
    usual = {"x86_64": (0, 1, 9, 59, 61, 202, 257), "aarch64": (63, 64, 222, 221, 260, 98, 56)}[machine]
    socket, socketpair, _, _, ioctl = NUMBERS[machine]
    assert {asked(machine, number) for number in usual} == {ALLOW}
    assert {asked(machine, call, family) for call in (socket, socketpair) for family in (1, 2, 10, 16)} == {ALLOW}
    assert asked(machine, ioctl, 0, 0x5401) == ALLOW


@EACH
def test_the_program_is_one_that_the_kernel_takes(machine: str) -> None:
    """Every way ends with a return: jumps go forward and stay within."""
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    assert len(code) <= MOST_INSTRUCTIONS
    for at, (operation, if_true, if_false, _) in enumerate(code):
        if operation & 0x07 == 0x05:
            assert at + 1 + max(if_true, if_false) < len(code)
    assert code[-1][0] == 0x06


@EACH
def test_the_table_holds_what_threats_md_names(machine: str) -> None:
    """threats.md T18: 27 probes and more, whatever the processor."""
    names = MACHINES[machine].numbers
    assert len(names) > 27
    assert len(set(names.values())) == len(names)
    for name in ("mount", "umount2", "ptrace", "keyctl", "bpf", "io_uring_setup", "unshare", "setns", "userfaultfd"):
        assert name in names


def test_both_processors_refuse_the_same_calls() -> None:
    assert MACHINES["x86_64"].numbers.keys() == MACHINES["aarch64"].numbers.keys()


def test_an_unknown_processor_raises() -> None:
    with pytest.raises(KeyError):
        seccomp.program("riscv64")
