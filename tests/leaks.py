"""leaks.py: is what LeakSanitizer found a message that nng lost?

nng 1.5.2 loses a message that it has received when the connection is closed in the very moment in which it comes
(wstran_pipe_recv_cb: nobody asks for it any more, and it is not freed). Who allocated it is the library alone, which has
no symbols for lsan.supp to name; and a message that we got from it and forgot would look the same. But we would forget
every one: *so* a report passes only if all of it was allocated inside nng by a thread of nng's, and it is a few messages.

Its server, which our C tests' fake broker is, also forgets a connection that breaks while it stops: blocks that name each
other, so that none of them is a direct leak. One such connection passes, too.
"""
import re

MESSAGES_MAX = 3
CONNECTION_BLOCKS_MAX = 64
BLOCK = re.compile(r"^(Direct|Indirect) leak of \d+ byte\(s\) in (\d+) object\(s\) allocated from:$")
FRAME = re.compile(r"^ {4}#\d+ 0x[0-9a-f]+ +(.*)$")
NOT_OURS = re.compile(r"\(.*/libnng\.so[.0-9]*\+0x[0-9a-f]+\)$|^in (__interceptor_(calloc|malloc)|start_thread|clone3?|__clone3?) |^\(.*/libc\.so[.0-9]*\+0x[0-9a-f]+\)$")


def are_nngs(report, messages_max=MESSAGES_MAX):
    """Whether the report tells of leaks, and of none but messages that nng lost. `report`: what the program said.
    `messages_max`: more where very many connections were broken."""
    direct = 0
    frames = None  # of the block that is being read
    blocks = []
    for line in report.splitlines():
        line = line.removeprefix("# ")
        if block := BLOCK.match(line):
            direct += int(block.group(2)) if block.group(1) == "Direct" else 0
            frames = []
            blocks.append(frames)
        elif frames is not None and (frame := FRAME.match(line)):
            frames.append(frame.group(1))
        elif not line.strip():
            frames = None
    others = re.search(r"AddressSanitizer: (?!\d+ byte\(s\) leaked)|runtime error:|Assertion", report)
    is_few = direct <= messages_max if direct > 0 else len(blocks) <= CONNECTION_BLOCKS_MAX
    return (bool(blocks) and is_few and not others and "ERROR: LeakSanitizer" in report
            and all(any("libnng" in frame for frame in frames) and all(NOT_OURS.search(frame) for frame in frames)
                    for frames in blocks))
