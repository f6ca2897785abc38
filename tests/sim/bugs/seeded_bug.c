/* seeded_bug.c: before main, switches on the defect that TARRY_SEEDED_BUG names. Linked only into tests that use the
 * libraries with defects (common/seeded_bug.h). */
#include "seeded_bug.h"

#include "weak.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum seeded_bug seeded_bug = SEEDED_BUG_none;
enum pair_weakness pair_weakness = WEAK_none; /* broker/pair/weak.h: the weakened rule of the pair */

/* clang-format off */
static const char *const names[] = {
    "none",
#define SEEDED_BUG_NAME(name, promise, sentence) #name,
    SEEDED_BUGS(SEEDED_BUG_NAME)
#undef SEEDED_BUG_NAME
};
static const char *const weaknesses[] = {
    "none",
#define WEAKNESS_NAME(name, rule, sentence) #name,
    PAIR_WEAKNESSES(WEAKNESS_NAME)
#undef WEAKNESS_NAME
};
/* clang-format on */

__attribute__((constructor)) static void seeded_bug_from_environment(void) {
    const char *wanted = getenv("TARRY_SEEDED_BUG");
    if (wanted == NULL) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], wanted) != 0) continue;
        seeded_bug = (enum seeded_bug)i;
        return;
    }
    for (size_t i = 0; i < sizeof weaknesses / sizeof *weaknesses; i++) {
        if (strcmp(weaknesses[i], wanted) != 0) continue;
        pair_weakness = (enum pair_weakness)i;
        return;
    }
    (void)fprintf(stderr, "TARRY_SEEDED_BUG: there is no bug called '%s'\n", wanted);
    _Exit(2);
}
