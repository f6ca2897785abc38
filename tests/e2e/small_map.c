/* small_map.c: preloaded into tarryd by soak.py: limits an LMDB map to 4 GiB. A new index is made with 64 GiB, and
 * valgrind does not have that much address space. */
#include <dlfcn.h>
#include <lmdb.h>
#include <stdlib.h>

#define MAP_SIZE_MAX ((size_t)4 << 30)

__attribute__((visibility("default"))) int mdb_env_set_mapsize(MDB_env *env, size_t size) {
    union {
        void *symbol;
        int (*set)(MDB_env *, size_t);
    } next = {.symbol = dlsym(RTLD_NEXT, "mdb_env_set_mapsize")};
    if (next.symbol == NULL) abort();
    return next.set(env, size < MAP_SIZE_MAX ? size : MAP_SIZE_MAX);
}
