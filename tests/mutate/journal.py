"""journal.py: keeps the result of each change, one line of JSON per change, so that a run can continue an earlier one. A change
is identified by its content, not its line number: by its file, the line before and after, and its number among equal lines. So it
is recognized when the file has grown.

A reviewer of a surviving change may add a line {"id": ID, "equivalent": WHY}: the change alters no behaviour and is counted
separately.
"""
import hashlib
import json
import os


def identity(path, lines, change):
    line = lines[change.line]
    words = [path, change.kind, line.strip(), change.text.strip(), str(lines[:change.line].count(line))]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


class Journal:
    """The last result of each change. Without a file nothing is kept."""

    def __init__(self, path=None):
        self.path, self.entries = path, {}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    entry = json.loads(line)
                    self.entries.setdefault(entry["id"], {}).update(entry)

    def of(self, key):
        """Returns {} for a change without a result."""
        return self.entries.get(key, {})

    def add(self, entry):
        self.entries.setdefault(entry["id"], {}).update(entry)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
