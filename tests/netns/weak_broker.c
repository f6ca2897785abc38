/* weak_broker.c: a tarryd with one weakened rule of the pair (broker/pair/weak.h), which TARRY_PAIR_WEAK names. For
 * rounds that must fail: rounds.py --weak NAME. Never installed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weak.h"

enum pair_weakness pair_weakness;

static const char *const names[] = {"none",
#define PAIR_WEAKNESS_NAME(name, rule, sentence) #name,
                                    PAIR_WEAKNESSES(PAIR_WEAKNESS_NAME)
#undef PAIR_WEAKNESS_NAME
};

__attribute__((constructor)) static void choose(void) {
    const char *name = getenv("TARRY_PAIR_WEAK");
    for (size_t i = 0; name != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) != 0) continue;
        pair_weakness = (enum pair_weakness)i;
        return;
    }
    fprintf(stderr, "TARRY_PAIR_WEAK must name a weakness of broker/pair/weak.h\n");
    exit(2);
}
