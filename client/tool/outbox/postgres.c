/* postgres.c: see postgres.h. */
#include "postgres.h"

#include <dlfcn.h>
#include <stdio.h>

#define LIBRARY "libpq.so.5"

struct postgres_library pq;

const char *postgres_load(void) {
    static char why[256];
    static void *library; /* never unloaded */
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, sizeof why, "%s", dlerror());
        return why;
    }
#define FIND(name)                                                                                                     \
    pq.name = (__typeof__(pq.name))dlsym(library, "PQ" #name);                                                         \
    if (pq.name == NULL) snprintf(why, sizeof why, "%s has no function PQ%s", LIBRARY, #name);
    POSTGRES_FUNCTIONS(FIND)
#undef FIND
    return why[0] == 0 ? NULL : why;
}
