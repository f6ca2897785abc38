"""journal.py: what was judged, a line of JSON for each change, so that a run goes on where another one ended. A change is known by what it is
and not by where: by its file, the line before and after, and which of the lines alike it is. So it is known again when the file has grown.

A line {"id": ID, "equivalent": WHY}, added by whoever has looked at a survivor, says that it changes no behaviour: it is counted apart.
"""
import hashlib
import json
import os


def identity(path, lines, change):
    line = lines[change.line]
    words = [path, change.kind, line.strip(), change.text.strip(), str(lines[:change.line].count(line))]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


class Journal:
    """The last that was said of each change; None for a file: nothing is kept."""

    def __init__(self, path=None):
        self.path, self.entries = path, {}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    entry = json.loads(line)
                    self.entries.setdefault(entry["id"], {}).update(entry)

    def of(self, key):
        """{} for a change that was not judged."""
        return self.entries.get(key, {})

    def add(self, entry):
        self.entries.setdefault(entry["id"], {}).update(entry)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
