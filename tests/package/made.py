"""made.py: three builds of the packages: of this tree, of this tree a second time in another place, and of this tree with the
next version number. Each is built when it is first used.
"""
import email.utils
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "packaging"))
import package  # noqa: E402  (the path above)

NEXT = "9.9.0"
# Two sets of environment variables, which must not change the built packages. No compiler cache, because it would give
# both builds the same object files.
ONE = {"CCACHE_DISABLE": "1", "TZ": "UTC"}
OTHER = {"CCACHE_DISABLE": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "USER": "somebody", "SHELL": "/bin/dash"}


class Made:
    """The directory of all results. It is kept if TARRY_PACKAGE_KEEP names one."""

    def __init__(self):
        self.kept = os.environ.get("TARRY_PACKAGE_KEEP")
        self.directory = self.kept or tempfile.mkdtemp(prefix="tarry-packages-", dir="/var/tmp")
        os.makedirs(self.directory, exist_ok=True)

    def close(self):
        if not self.kept:
            shutil.rmtree(self.directory, ignore_errors=True)

    def at(self, name):
        return os.path.join(self.directory, name)

    def _build(self, name, root, environment, jobs=None):
        """Builds the packages. Returns the paths of the results. `name` may be a path of several folders."""
        work = self.at(name)
        if not glob.glob(os.path.join(glob.escape(work), "*.changes")):
            shutil.rmtree(work, ignore_errors=True)
            os.makedirs(work)
            with open(self.at("said-" + name.replace("/", "-")), "w+", encoding="utf-8", errors="replace") as said:
                try:
                    package.make(root, work, said, environment, jobs)
                except RuntimeError as wrong:
                    said.seek(0)
                    raise AssertionError(f"{wrong}\n{said.read()[-8000:]}") from wrong
        return sorted(path for path in glob.glob(os.path.join(glob.escape(work), "*")) if os.path.isfile(path))

    def tree(self):
        """Copies the tree at the first call, and returns the copy. So both builds use the same sources, even if somebody edits
        the tree.
        """
        tree = self.at("tree")
        if not os.path.isdir(tree):
            copy_tree(ROOT, tree + ".partial")
            os.rename(tree + ".partial", tree)
        return tree

    def first(self):
        return self._build("one", self.tree(), ONE)

    def second(self):
        """Builds the same tree again. Every setting that should not matter is different."""
        umask = os.umask(0o077)
        try:
            return self._build("another/place-with-a-longer-name", self.tree(), OTHER, jobs=1)
        finally:
            os.umask(umask)

    def next(self):
        """Builds packages of a later version: this tree with another version number."""
        tree = self.at("next-tree")
        if not os.path.isdir(tree):
            copy_tree(self.tree(), tree)
            major, minor, patch = NEXT.split(".")
            replace(os.path.join(tree, "meson.build"), r"version: '[\d.]+',", f"version: '{NEXT}',")
            for part, value in (("MAJOR", major), ("MINOR", minor), ("PATCH", patch)):
                replace(os.path.join(tree, "client/include/tarry.h"), rf"(#define TARRY_VERSION_{part}) \d+", rf"\1 {value}")
            changelog = os.path.join(tree, package.COPIED, "changelog")
            with open(changelog, encoding="utf-8") as file:
                before = file.read()
            with open(changelog, "w", encoding="utf-8") as file:
                later = email.utils.formatdate(package.timestamp_of(ROOT) + 1)  # not in the future, because meson refuses such a time
                file.write(f"tarry ({NEXT}-0upstream1) unstable; urgency=medium\n\n  * Later.\n\n"
                           f" -- Somebody <somebody@tarry.example>  {later}\n\n{before}")
        cache = subprocess.run(["ccache", "-k", "cache_dir"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip() if shutil.which("ccache") else ""
        return self._build("next", tree, {"CCACHE_DIR": cache} if cache else {})


def copy_tree(root, tree):
    for name in package.tracked(root):
        os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
        shutil.copy2(os.path.join(root, name), os.path.join(tree, name), follow_symlinks=False)


def replace(path, pattern, by):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text, count = re.subn(pattern, by, text, count=1)
    assert count == 1, f"{path}: no {pattern}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def debs(made, *names):
    """Returns those of the built packages that have these names."""
    found = [path for path in made if path.endswith(".deb") and os.path.basename(path).split("_")[0] in names]
    assert len(found) == len(names), f"{names} among {made}"
    return found
