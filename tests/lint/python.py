"""python.py: pyflakes finds errors in our Python that otherwise only a run would show: undefined names, unused imports."""
import lint


def check(root, _build):
    status, output = lint.run(["pyflakes3", *lint.our_files(root, (".py",))], root)
    return output.splitlines() or ([f"pyflakes3 ended with {status}"] if status else [])


if __name__ == "__main__":
    lint.main("python", check)
