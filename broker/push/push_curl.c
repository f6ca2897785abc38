/* push_curl.c: see push_curl.h. */
#include "push_curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libcurl.so.4"
#define WHY_SIZE 256

struct push_curl push_curl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[WHY_SIZE]; /* empty: it is loaded */

static void load(void) {
    static void *library; /* for as long as the process lives */
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, sizeof(why), "%s", dlerror());
        return;
    }
#define PUSH_CURL_FIND(name)                                                                                           \
    push_curl.name = (__typeof__(push_curl.name))dlsym(library, "curl_" #name);                                        \
    if (push_curl.name == NULL) snprintf(why, sizeof(why), "%s has no curl_%s", LIBRARY, #name);
    PUSH_CURL_FUNCTIONS(PUSH_CURL_FIND)
#undef PUSH_CURL_FIND
    if (why[0] == '\0' && push_curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(why, sizeof(why), "%s does not start", LIBRARY);
}

int push_curl_load(char message[PUSH_CURL_MESSAGE_SIZE]) {
    pthread_once(&once, load);
    if (why[0] == '\0') return 0;
    snprintf(message, PUSH_CURL_MESSAGE_SIZE, "webhooks need libcurl: %s; apt-get install libcurl4", why);
    return 1;
}
