/* http_head.h: the head of an HTTP/1.1 request, of any path, and the chunks of a body, read strictly: what a proxy
 * might read otherwise is refused, so that nothing can be smuggled past one (RFC 9112, 11.2). Pure; any thread.
 *
 * Refused are, among others: a line that ends in LF alone, a CR elsewhere, a blank before a colon, a line that goes on
 * (obs-fold), a field that decides about the body or the requester twice, a Content-Length beside a Transfer-Encoding,
 * names that a gateway might take for those (`Content_Length`). Chunk extensions and trailers are passed over, as RFC
 * 9112 wants it (7.1.1, 7.1.2); their bytes and line ends are judged as strictly as a head's. */
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

/* Fields that something rests on; each may come once. */
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

struct head_text { /* terminated; NULL: it is not there */
    char *text;
    size_t size;
};

struct head_parameter {
    struct head_text name;
    struct head_text value;
};

/* All texts lie in the bytes that were parsed, which are changed for that. */
struct head {
    enum head_method method;
    struct head_text segments[HEAD_SEGMENTS_MAX]; /* of the path, decoded: "/v1/queues/a%2Fb" is v1, queues, a/b */
    size_t segment_count;
    struct head_parameter parameters[HEAD_PARAMETERS_MAX]; /* of the query, decoded */
    size_t parameter_count;
    struct head_text fields[HEAD_FIELDS_KNOWN];
    bool stays;  /* the connection, after this request */
    bool is_old; /* HTTP/1.0 */
    bool is_chunked;
    bool wants_go_ahead; /* Expect: 100-continue */
    bool is_upgrade;     /* GET with Upgrade: websocket and Connection: upgrade; other upgrades are ignored (h2c) */
    uint64_t length;     /* of the body, unless it is chunked; 0: there is none */
};

enum head_result { HEAD_MORE, HEAD_DONE, HEAD_BAD };

struct head_refusal {
    unsigned status; /* 400, 413, 414, 417, 431, 501, 505 */
    const char *sentence;
};

/* DONE: `*out_used` bytes are the head, and are changed. MORE: the head is not whole; nothing is changed. */
enum head_result http_head_parse(char *bytes, size_t size, struct head *out, size_t *out_used,
                                 struct head_refusal *out_refusal);
/* The path, decoded, as of a page: "/healthz"; "" if it is longer than that of any. Returns `out`. */
#define HEAD_PATH_SIZE 64u
char *head_path(const struct head *head, char out[HEAD_PATH_SIZE]);
/* NULL: there is no such parameter. */
const struct head_text *head_parameter(const struct head *head, const char *name);

/* ---- chunks */

/* Bytes that all chunk extensions and trailers of a body may have. */
#define CHUNKS_PASSED_OVER_MAX 4096u

struct chunks {
    int state;
    uint64_t left; /* of the chunk */
    unsigned digits;
    unsigned passed_over; /* bytes of extensions and trailers so far */
};
/* Takes what it can of `*size` bytes: `*size` becomes how many were taken, `*out`, `*out_size` what they hold of the
 * body (within the bytes). DONE: the last chunk is over. MORE: call it again with the rest, if there is any. */
enum head_result chunks_take(struct chunks *chunks, char *bytes, size_t *size, char **out, size_t *out_size);

#endif
