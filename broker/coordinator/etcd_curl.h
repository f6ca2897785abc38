/* etcd_curl.h: libcurl's functions, found when the first etcd:// is opened. *Because* libcurl brings thirty libraries
 * along, 30 ms and 6 MB a process. *So* a broker without etcd neither waits for them nor has them within itself; the
 * library must be there where one has it, and a sentence says so.
 *
 * Thread-safety: etcd_curl_load any thread; the functions are libcurl's. */
#ifndef TARRY_COORDINATOR_ETCD_CURL_H
#define TARRY_COORDINATOR_ETCD_CURL_H

#define CURL_DISABLE_TYPECHECK /* its macros name the functions */
#include <curl/curl.h>

#include "coordinator.h"

#define ETCD_CURL_FUNCTIONS(X)                                                                                         \
    X(easy_init)                                                                                                       \
    X(easy_cleanup)                                                                                                    \
    X(easy_getinfo)                                                                                                    \
    X(easy_setopt)                                                                                                     \
    X(easy_strerror)                                                                                                   \
    X(global_init)                                                                                                     \
    X(multi_add_handle)                                                                                                \
    X(multi_cleanup)                                                                                                   \
    X(multi_info_read)                                                                                                 \
    X(multi_init)                                                                                                      \
    X(multi_perform)                                                                                                   \
    X(multi_poll)                                                                                                      \
    X(multi_remove_handle)                                                                                             \
    X(slist_append)                                                                                                    \
    X(slist_free_all)

struct etcd_curl {
#define ETCD_CURL_FIELD(name) __typeof__(curl_##name) *name;
    ETCD_CURL_FUNCTIONS(ETCD_CURL_FIELD)
#undef ETCD_CURL_FIELD
};

/* Theirs after etcd_curl_load has returned 0. */
extern struct etcd_curl curl;

/* 0, or 1 with a sentence. */
int etcd_curl_load(char message[COORDINATOR_MESSAGE_SIZE]);

#endif
