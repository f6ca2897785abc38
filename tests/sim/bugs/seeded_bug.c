/* seeded_bug.c: before main, switches on the deliberate defect that TARRY_SEEDED_BUG names. Linked only into tests that
 * use the libraries with defects (seeding.py). */
#include <seeded_bug.h> /* made by tests/sim/bugs/seeding.py */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum seeded_bug seeded_bug = SEEDED_BUG_none;

bool seeded_bug_choose(const char *name) {
    static const char *const names[] = {
#define SEEDED_BUG_NAME(name) [SEEDED_BUG_##name] = #name,
        SEEDED_BUGS(SEEDED_BUG_NAME)
#undef SEEDED_BUG_NAME
    };
    for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) != 0) continue;
        seeded_bug = (enum seeded_bug)i;
        return true;
    }
    return false;
}

__attribute__((constructor)) static void seeded_bug_from_environment(void) {
    const char *wanted = getenv("TARRY_SEEDED_BUG");
    if (wanted == NULL || seeded_bug_choose(wanted)) return;
    (void)fprintf(stderr, "TARRY_SEEDED_BUG: there is no bug called '%s'\n", wanted);
    _Exit(2);
}
