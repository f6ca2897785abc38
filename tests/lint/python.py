"""python.py: pyflakes finds in our Python what only a run would show: names that nobody defined, imports that nobody uses."""
import lint


def check(root, _build):
    status, output = lint.run(["pyflakes3", *lint.our_files(root, (".py",))], root)
    return output.splitlines() or ([f"pyflakes3 ended with {status}"] if status else [])


if __name__ == "__main__":
    lint.main("python", check)
