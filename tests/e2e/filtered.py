"""filtered.py UNIT COMMAND...: runs a command under the SystemCallFilter of a systemd unit, as systemd would: forbidden calls
return EPERM. The contents of sets (@system-service) come from systemd itself. x86-64 and aarch64, with the kernel's headers."""
import ctypes
import errno
import os
import platform
import re
import struct
import subprocess
import sys

HEADERS = {"x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0xC000003E), "aarch64": ("/usr/include/asm-generic/unistd.h", 0xC00000B7)}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
AT_NUMBER, AT_ARCHITECTURE = 0, 4


def of_set(name):
    """Returns the names in a set of systemd, including nested sets."""
    said = subprocess.run(["systemd-analyze", "syscall-filter", name], stdout=subprocess.PIPE, text=True, check=True).stdout
    words = [line.strip() for line in said.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return {call for word in words for call in (of_set(word) if word.startswith("@") else {word})}


def allowed(unit):
    """Returns the calls that a unit's SystemCallFilter lines allow: each line adds calls, or removes them with ~."""
    calls = set()
    with open(unit, encoding="utf-8") as file:
        for value in re.findall(r"^SystemCallFilter=(.*)$", file.read(), re.M):
            named = {call for word in value.lstrip("~").split() for call in (of_set(word) if word.startswith("@") else {word})}
            calls = calls - named if value.startswith("~") else calls | named
    return calls


def confine(calls):
    path, architecture = HEADERS[platform.machine()]
    with open(path, encoding="ascii") as file:
        numbers = dict(re.findall(r"^#define __NR3?2?6?4?_?(\w+)\s+(\d+)$", file.read(), re.M))
    program = [(LOAD, 0, 0, AT_ARCHITECTURE), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL), (LOAD, 0, 0, AT_NUMBER)]
    for number in sorted(int(numbers[call]) for call in calls if call in numbers):
        program += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    program.append((RETURN, 0, 0, ERRNO | errno.EPERM))
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    whole = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(packed)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, whole, 0, 0)):
        if libc.prctl(*arguments) != 0:
            sys.exit(f"filtered.py: {os.strerror(ctypes.get_errno())}")


def main():
    confine(allowed(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
