"""progress.py: shows in one line what runs now: rewritten on a terminal, otherwise printed every 15 s."""
import os
import shutil
import sys
import time

EVERY_S = 15


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Progress:
    """Shares standard output with lines that stay: print those with `say`."""

    def __init__(self, stream=None, is_terminal=None):
        self.stream = stream or sys.stdout
        self.is_terminal = (self.stream.isatty() and os.environ.get("TERM") != "dumb") if is_terminal is None else is_terminal
        self.started = self.told_at = time.monotonic()
        self.is_shown = False

    def say(self, line):
        self.clear()
        print(line, file=self.stream, flush=True)

    def show(self, text):
        """Shows the line; `text` is cut to the width of the terminal."""
        now = time.monotonic()
        line = f"[{clock(now - self.started)}] {text}"
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\033[K" + (line if len(line) <= width else line[:width - 1] + "…"))
            self.stream.flush()
            self.is_shown = True
        elif now - self.told_at >= EVERY_S:
            self.told_at = now
            print(line, file=self.stream, flush=True)

    def clear(self):
        if self.is_shown:
            self.stream.write("\r\033[K")
            self.is_shown = False
