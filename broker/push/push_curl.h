/* push_curl.h: libcurl's functions, found when the first queue is pushed. *Because* libcurl brings thirty libraries
 * along, 30 ms and 6 MB a process. *So* a broker that pushes nothing has none of it, as one without etcd (etcd_curl.h),
 * whose table is its own: a broker may have the one without the other.
 *
 * Thread-safety: push_curl_load any thread; the functions are libcurl's. */
#ifndef TARRY_PUSH_PUSH_CURL_H
#define TARRY_PUSH_PUSH_CURL_H

#define CURL_DISABLE_TYPECHECK /* its macros name the functions */
#include <curl/curl.h>

#define PUSH_CURL_MESSAGE_SIZE 320

#define PUSH_CURL_FUNCTIONS(X)                                                                                         \
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
    X(multi_setopt)                                                                                                    \
    X(multi_wakeup)                                                                                                    \
    X(slist_append)                                                                                                    \
    X(slist_free_all)

struct push_curl {
#define PUSH_CURL_FIELD(name) __typeof__(curl_##name) *name;
    PUSH_CURL_FUNCTIONS(PUSH_CURL_FIELD)
#undef PUSH_CURL_FIELD
};

/* Theirs after push_curl_load has returned 0. */
extern struct push_curl push_curl;

/* 0, or 1 with a sentence. */
int push_curl_load(char message[PUSH_CURL_MESSAGE_SIZE]);

#endif
