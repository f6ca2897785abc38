/* http_head.h: a strict parser for the head of an HTTP/1.1 request and for the chunks of a body. It refuses all input
 * that a proxy might read differently, which prevents request smuggling (RFC 9112, 11.2). Pure; any thread.
 *
 * Examples of refused heads: a line that ends in LF alone, a CR elsewhere, a blank before a colon, and a folded line
 * (obs-fold). Also refused: a repeated field from HEAD_FIELDS, Content-Length together with Transfer-Encoding, and
 * names that a gateway might normalize to these two (`Content_Length`). The parser ignores the content of chunk
 * extensions and trailers (RFC 9112, 7.1.1, 7.1.2), but checks their bytes and line ends as strictly as a head's. */
#ifndef TARRY_NET_HTTP_HEAD_H
#define TARRY_NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAD_SIZE_MAX 16384u
#define HEAD_FIELDS_MAX 64u
#define HEAD_SEGMENTS_MAX 8u
#define HEAD_PARAMETERS_MAX 16u

enum head_method { HEAD_GET, HEAD_HEAD, HEAD_POST, HEAD_PUT, HEAD_PATCH, HEAD_DELETE, HEAD_OPTIONS, HEAD_OTHER };

/* Fields that the broker uses; each may occur at most once. */
#define HEAD_FIELDS(X)                                                                                                 \
    X(host, "host")                                                                                                    \
    X(length, "content-length")                                                                                        \
    X(coding, "transfer-encoding")                                                                                     \
    X(type, "content-type")                                                                                            \
    X(encoding, "content-encoding")                                                                                    \
    X(authorization, "authorization")                                                                                  \
    X(idempotency, "idempotency-key")                                                                                  \
    X(origin, "origin")                                                                                                \
    X(expect, "expect")                                                                                                \
    X(ws_key, "sec-websocket-key")                                                                                     \
    X(ws_version, "sec-websocket-version")                                                                             \
    X(ws_protocol, "sec-websocket-protocol")                                                                           \
    X(agent, "user-agent")

enum head_field {
#define X(name, text) HEAD_FIELD_##name,
    HEAD_FIELDS(X)
#undef X
        HEAD_FIELDS_KNOWN
};

struct head_text { /* NUL-terminated text; `text` is NULL if absent */
    char *text;
    size_t size;
};

struct head_parameter {
    struct head_text name;
    struct head_text value;
};

/* A parsed head. All texts point into the parsed bytes, which the parser changes. */
struct head {
    enum head_method method;
    /* Segments of the path, percent-decoded: "/v1/queues/a%2Fb" is v1, queues, a/b. */
    struct head_text segments[HEAD_SEGMENTS_MAX];
    size_t segment_count;
    struct head_parameter parameters[HEAD_PARAMETERS_MAX]; /* parameters of the query, percent-decoded */
    size_t parameter_count;
    struct head_text fields[HEAD_FIELDS_KNOWN];
    bool stays;  /* the connection stays open after this request */
    bool is_old; /* HTTP/1.0 */
    bool is_chunked;
    bool wants_go_ahead; /* Expect: 100-continue */
    bool is_upgrade;     /* GET with Upgrade: websocket and Connection: upgrade; other upgrades (h2c) are ignored */
    uint64_t length;     /* bytes of the body if not chunked; 0: no body */
};

enum head_result { HEAD_MORE, HEAD_DONE, HEAD_BAD };

struct head_refusal {
    unsigned status; /* HTTP status: 400, 413, 414, 417, 431, 501 or 505 */
    const char *sentence;
};

/* Parses a head. DONE: the first `*out_used` bytes are the head, and are changed. MORE: the head is incomplete, and
 * nothing is changed. */
enum head_result http_head_parse(char *bytes, size_t size, struct head *out, size_t *out_used,
                                 struct head_refusal *out_refusal);
/* Writes the decoded path of a page, for example "/healthz", or "" if it exceeds HEAD_PATH_SIZE. Returns `out`. */
#define HEAD_PATH_SIZE 64u
char *head_path(const struct head *head, char out[HEAD_PATH_SIZE]);
/* Returns the value of a query parameter; NULL: no such parameter. */
const struct head_text *head_parameter(const struct head *head, const char *name);

/* ---- chunks */

/* Maximum bytes of all chunk extensions and trailers of one body. */
#define CHUNKS_PASSED_OVER_MAX 4096u

struct chunks {
    int state;
    uint64_t left; /* bytes of the current chunk that have not arrived */
    unsigned digits;
    unsigned passed_over; /* bytes of extensions and trailers received */
};
/* Decodes chunked input. `*size` becomes the number of bytes consumed; `*out` and `*out_size` the body bytes found in
 * them. DONE: the last chunk has ended. MORE: call again with the remaining bytes. */
enum head_result chunks_take(struct chunks *chunks, char *bytes, size_t *size, char **out, size_t *out_size);

#endif
