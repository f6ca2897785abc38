"""riddles.py: comments, messages and Markdown contain no phrases that need a second reading.

RIDDLES lists the phrases, each with the question that it leaves open. They are counted for each folder and may not exceed the
numbers in riddles_limits.json; a folder that is not in the file may contain none. If there are fewer, `riddles.py --record ROOT`
lowers the limits. EXCEPTIONS lists the correct uses, with the reason.

Examined are C comments, Python and shell comments, string literals of at least four words in C files of the product, and Markdown
without code blocks.
"""
import collections
import json
import os
import re
import sys

import lint

# Phrases: (regular expression, advice for the author).
RIDDLES = [
    (r"(?<!there )\b(?:is|are|was|were) none\b(?! of)", "say 'invalid', 'missing' or 'empty'"),
    (r"\bis no (?:number|url|address|name|file|member|node|record|key|queue|path|port|object|array)\b", "say 'is not a valid …'"),
    (r"\bfor so long\b|\bso (?:many|few) (?:bytes|times|tasks|milliseconds|seconds)\b|\bas often\b", "state the number and the unit"),
    (r"\b(?:is|are|was|were) told\b", "name the message or the function that passes it"),
    (r"\bgoes by\b|\bgo by\b|\bstands? for\b", "say 'uses', 'means' or 'replaces'"),
    (r"\bwhat (?:is|was|are|were|has|came|comes|goes|went|it|they) \w+ (?:is|are|was|were|has|goes|stays|waits)\b", "name the thing"),
    (r"\b(?:is|are|was|were|begun|written|made|read|set|asked) anew\b", "say 'again' or 'a new one'"),
    (r"\bfor good\b|\bin vain\b|\bat hand\b|\bin hand\b", "say 'permanently', 'without success', 'available'"),
    (r"\b(?:knock(?:s|ed|ing)?|courier|(?:is|no|the|of) news|strangers?)\b", "use the field's term: request, connection, change, client"),
    (r"\b(?:the|its) own way\b|\bgone by\b|\bin its turn\b", "say which step happens when"),
    (r"^/\* (?:…|and |nor |or )", "a comment begins a sentence of its own"),
    (r"\b(?:returns|does) the same\b|\breturns as above\b", "repeat the fact: each comment is read alone"),
]
COMPILED = [(re.compile(phrase, re.IGNORECASE), advice) for phrase, advice in RIDDLES]
# Correct uses: (beginning of the path, words in the phrase, why they are right there).
EXCEPTIONS = [
    ("tests/fuzz/", "stranger", "the name of a program, tests/fuzz/broker/stranger.c: a client that sends any messages and knows no others"),
    ("tests/hostile/", "stranger", "the catalogue of these tests defines the word: a host that has no token"),
]
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
PRODUCT = ("broker/", "client/", "common/", "proto/", "storage/", "transport/")
LIMITS = "tests/lint/riddles_limits.json"


def c_texts(path, text):
    for match in COMMENT.finditer(text):
        part, line = match[0], text.count("\n", 0, match.start()) + 1
        if part.startswith("/*"):
            yield line, "/* " + re.sub(r"\s*\n\s*\*? ?", " ", part[2:-2]).strip(" *")
        elif part.startswith("//"):
            yield line, part[2:].strip()
        elif part.startswith('"') and path.startswith(PRODUCT) and len(re.findall(r"[A-Za-z]{2,}", part)) >= 4:
            yield line, part[1:-1]


def hash_texts(_path, text):
    for line, content in enumerate(text.split("\n"), 1):
        if match := re.match(r"(?:.*\s)?#(?!!) ?([^\"']*)$", content):
            yield line, match[1].strip()


def markdown_texts(_path, text):
    text = re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL)
    for line, content in enumerate(text.split("\n"), 1):
        yield line, "  " + re.sub(r"`[^`]*`", "``", content)


READERS = {".c": c_texts, ".h": c_texts, ".py": hash_texts, ".sh": hash_texts, ".build": hash_texts, ".md": markdown_texts}


def findings(root):
    """Yields (path, line, phrase, advice)."""
    for path in lint.our_files(root, tuple(READERS)):
        if path.startswith("tests/lint/") or path == "CHANGELOG.md":  # these two are excluded: tests/lint lists the phrases, and published text stays unchanged
            continue
        for line, text in READERS[os.path.splitext(path)[1]](path, "\n".join(lint.read_lines(root, path))):
            for phrase, advice in COMPILED:
                for match in phrase.finditer(text):
                    if not any(path.startswith(start) and words in match[0].lower() for start, words, _why in EXCEPTIONS):
                        yield path, line, match[0], advice


def limits(root):
    path = os.path.join(root, LIMITS)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def counts(found):
    return collections.Counter(os.path.dirname(path) or "." for path, *_ in found)


def record(root):
    """Lowers the limits to the current numbers; never raises one."""
    known = limits(root)
    kept = {folder: min(count, known.get(folder, count)) for folder, count in sorted(counts(findings(root)).items())}
    with open(os.path.join(root, LIMITS), "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")


def check(root, _build):
    found, known = list(findings(root)), limits(root)
    too_many = {folder for folder, count in counts(found).items() if count > known.get(folder, 0)}
    return [f"{path}:{line}: '{phrase.strip()}': {advice} (at most {known.get(os.path.dirname(path) or '.', 0)} in this folder, {LIMITS})"
            for path, line, phrase, advice in found if (os.path.dirname(path) or ".") in too_many]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        sys.exit(record(os.path.abspath(sys.argv[2])))
    lint.main("riddles", check)
