"""tokens.py: makes the text of token files, for tests with credentials."""
import hashlib

FIRST_LINE = "tarry-tokens 1\n"


def text_of(name):
    """Returns the token of this name. Every test can compute it."""
    return f"tarry_the-token-of-{name}-in-a-test"


ADMIN = text_of("admin")  # token with the role admin, which each broker of the harness accepts (harness.py)


def row(name, roles, *fields):
    """Returns the row of a token file for this name. `fields` as in the file: "queue=orders.", "rate=5"."""
    digest = hashlib.blake2b(text_of(name).encode(), digest_size=32).hexdigest()
    return " ".join(("token", name, f"roles={roles}", f"hash={digest}", *fields)) + "\n"
