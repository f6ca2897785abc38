/* libcurl.h: loads libcurl at run time, on first use: an etcd:// address or a queue with webhooks. libcurl loads thirty
 * libraries, which cost 30 ms and 6 MB per process. So a broker without etcd and webhooks does not load it. Where it is
 * needed and not installed, a sentence says so.
 *
 * Thread-safety: any thread may call libcurl_load; for the functions, libcurl's own rules apply. */
#ifndef TARRY_CURL_LIBCURL_H
#define TARRY_CURL_LIBCURL_H

/* Switches off libcurl's type-check macros, because they use the names of its functions. */
#define CURL_DISABLE_TYPECHECK
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

/* libcurl's functions; valid after libcurl_load has returned NULL. */
extern struct libcurl curl;

/* Loads libcurl. Returns NULL, or why it is not available; the result is the same until the process ends. */
const char *libcurl_load(void);

#endif
