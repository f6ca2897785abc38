/* etcd_curl.c: see etcd_curl.h. */
#include "etcd_curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libcurl.so.4"
#define WHY_SIZE 256

struct etcd_curl curl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[WHY_SIZE]; /* empty: it is loaded */

static void load(void) {
    static void *library; /* for as long as the process lives */
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why, sizeof why, "%s", dlerror());
        return;
    }
#define ETCD_CURL_FIND(name)                                                                                           \
    curl.name = (__typeof__(curl.name))dlsym(library, "curl_" #name);                                                  \
    if (curl.name == NULL) snprintf(why, sizeof why, "%s has no curl_%s", LIBRARY, #name);
    ETCD_CURL_FUNCTIONS(ETCD_CURL_FIND)
#undef ETCD_CURL_FIND
    if (why[0] == '\0' && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        snprintf(why, sizeof why, "%s does not start", LIBRARY);
}

int etcd_curl_load(char message[COORDINATOR_MESSAGE_SIZE]) {
    pthread_once(&once, load);
    if (why[0] == '\0') return 0;
    snprintf(message, COORDINATOR_MESSAGE_SIZE, "coordinator: etcd needs libcurl: %s; apt-get install libcurl4", why);
    return 1;
}
