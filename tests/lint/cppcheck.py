"""cppcheck.py: runs cppcheck for warnings, performance and portability. Each suppression is in the source, with its reason.
Three checks are off for all files. readdirCalled: readdir is safe on a DIR that no other thread uses. varFuncNullUB: POSIX
allows NULL as a pointer. nullPointerRedundantCheck: cppcheck does not know that some functions never return; clang's
analyzer knows, and makes the same check.
"""
import os

import lint

COMMAND = ["cppcheck", "--enable=warning,performance,portability", "--inline-suppr", "--quiet", "--error-exitcode=9",
           "--std=c11", "--suppress=missingInclude", "--suppress=missingIncludeSystem", "--suppress=unmatchedSuppression",
           "--check-library", "--suppress=readdirCalled", "--suppress=varFuncNullUB", "--suppress=nullPointerRedundantCheck",
           "--suppress=checkLibraryFunction", "--suppress=checkLibraryNoReturn",
           "--suppress=checkLibraryUseIgnore", "--suppress=checkLibraryCheckType", "--library=posix", "-D__GNUC__=12",
           "-j2", "--template={file}:{line}: {id}: {message}"]


def check(root, build):
    files = lint.our_files(root, (".c",))
    cache = os.path.join(build, "lint-cppcheck")
    os.makedirs(cache, exist_ok=True)
    includes = [f"-I{os.path.join(root, d)}" for d in ("common", "proto", "storage/files", "storage/log", "storage/index", "storage/history", "broker/access", "broker/core", "broker/engine", "broker/replication", "broker/shell", "broker/shell/process",
                                                       "client/include", "client/lib", "client/tool")]
    status, output = lint.run([*COMMAND, f"--cppcheck-build-dir={cache}", *includes, *files], root)
    if status == 0:
        return []
    return [line for line in output.splitlines() if line.strip()][:60] or [f"cppcheck ended with {status}"]


if __name__ == "__main__":
    lint.main("cppcheck", check, lambda: lint.another_release("cppcheck", "2.10"))
