/* api.h: makes HTTP and JSON requests like a client of /v1, and wrong ones: every path, the right kinds of bodies with
 * some wrong values, compressed, chunked, and framed so that two parsers may disagree about the end. */
#ifndef TARRY_TESTS_FUZZ_BROKER_API_H
#define TARRY_TESTS_FUZZ_BROKER_API_H

#include "out.h"
#include "random.h"
#include "seen.h"

struct api {
    struct random *random;
    const struct seen *seen;
    const char *token; /* sent with each request; NULL: none */
    bool looks; /* true: requests lists, statistics, histories and pages; false: sends requests about tasks, and learns
                   ids from the answers */
};

enum api_end {
    API_GOES_ON,
    API_ENDS, /* the broker cannot understand any bytes after this request */
    API_HANGS /* the request waits for a long time, or is incomplete */
};

/* Appends a request. */
enum api_end api_request(const struct api *api, struct out *out);

/* ---- internal: api_json.c */
enum api_body {
    BODY_NONE,
    BODY_TASKS,
    BODY_LINES,
    BODY_WHEN,
    BODY_COMMIT,
    BODY_SETTLE,
    BODY_LEASE,
    BODY_POLICY,
    BODY_PAUSE,
    BODY_PURGE,
    BODY_DEAD
};
void api_json(const struct api *api, enum api_body kind, struct out *out);
/* Writes a queue's name as text. */
void api_queue(const struct api *api, struct out *out);
/* ---- api_frame.c: the head's fields about the body, and the body */
enum api_end api_frame(const struct api *api, const struct out *body, struct out *out);

#endif
