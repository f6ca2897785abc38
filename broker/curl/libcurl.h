/* libcurl.h: libcurl's functions, found by the first user: an etcd:// that is opened, a queue that is pushed.
 * *Because* libcurl brings thirty libraries along, 30 ms and 6 MB a process. *So* a broker without etcd and webhooks
 * neither waits for them nor has them within itself; the library must be there where one has them, and a sentence says
 * so.
 *
 * Thread-safety: libcurl_load any thread; the functions are libcurl's. */
#ifndef TARRY_CURL_LIBCURL_H
#define TARRY_CURL_LIBCURL_H

#define CURL_DISABLE_TYPECHECK /* its macros name the functions */
#include <curl/curl.h>

#define LIBCURL_FUNCTIONS(X)                                                                                           \
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

struct libcurl {
#define LIBCURL_FIELD(name) __typeof__(curl_##name) *name;
    LIBCURL_FUNCTIONS(LIBCURL_FIELD)
#undef LIBCURL_FIELD
};

/* Theirs after libcurl_load has returned NULL. */
extern struct libcurl curl;

/* NULL, or why it is not there, for as long as the process lives. */
const char *libcurl_load(void);

#endif
