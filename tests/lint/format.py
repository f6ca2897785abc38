"""format.py: checks that clang-format would change no file."""
import lint


def check(root, _build):
    files = lint.our_files(root, (".c", ".h"))
    status, output = lint.run(["clang-format", "--dry-run", "-Werror", *files], root)
    if status == 0:
        return []
    lines = [line for line in output.splitlines() if "error:" in line or status == 127]
    return lines[:40] or [output.strip()[:2000]]


if __name__ == "__main__":
    lint.main("format", check, lambda: lint.another_release("clang-format", "14"))
