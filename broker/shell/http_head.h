/* http_head.h: which HTTP requests the broker's port takes: judged by their heads, before anybody else reads them.
 * Pure.
 *
 * Taken is what clients, Prometheus and people send, and nothing else: GET or HEAD, a short target of plain characters,
 * no body, at most HTTP_HEADERS_MAX headers, an Origin (of a web page in a browser) only if an operator allows it. The
 * target may have no escape (%41): nng 1.5.2 overruns its heap at one that ends in such. */
#ifndef TARRY_SHELL_HTTP_HEAD_H
#define TARRY_SHELL_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_HEAD_SIZE_MAX 8000u /* nng's own buffer has 8192 */
#define HTTP_TARGET_SIZE_MAX 256u
#define HTTP_HEADERS_MAX 64u

struct http_refusal {
    unsigned status;    /* HTTP's; 0: it is taken */
    const char *reason; /* a sentence */
};

/* Where the first head in `data` ends, behind its empty line; 0: not in these bytes. `from`: so many were looked at
 * before. */
size_t http_head_end(const char *data, size_t size, size_t from);
/* Whether the bytes may be of a head: printable ASCII and ends of lines. */
bool http_head_is_text(const char *data, size_t size);
/* Judges a whole head. `origins`: those allowed, separated by blanks; "": none. */
struct http_refusal http_head_judge(const char *head, size_t size, const char *origins);

/* Whether `text` is an origin as browsers send it: scheme://host[:port], or null. */
bool http_is_origin(const char *text);

#endif
