/* libcurl.c: see libcurl.h. */
#include "libcurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libcurl.so.4"
#define WHY_SIZE 256

struct libcurl curl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[WHY_SIZE]; /* reason why libcurl is not available; empty: it is loaded */

static void load(void) {
    static void *library; /* never unloaded */
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, sizeof(why), "%s", dlerror());
        return;
    }
#define LIBCURL_FIND(name)                                                                                             \
    curl.name = (__typeof__(curl.name))dlsym(library, "curl_" #name);                                                  \
    if (curl.name == NULL) snprintf(why, sizeof(why), "%s has no function curl_%s", LIBRARY, #name);
    LIBCURL_FUNCTIONS(LIBCURL_FIND)
#undef LIBCURL_FIND
    if (why[0] == '\0' && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(why, sizeof(why), "%s cannot be initialized", LIBRARY);
}

const char *libcurl_load(void) {
    pthread_once(&once, load);
    return why[0] == '\0' ? NULL : why;
}
