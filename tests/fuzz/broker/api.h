/* api.h: requests of HTTP and JSON as a client of /v1 makes them, and as nobody should: every path, bodies of its kind
 * with wrong values in them, packed, cut into chunks, and framed so that two readers might not agree. */
#ifndef TARRY_TESTS_FUZZ_BROKER_API_H
#define TARRY_TESTS_FUZZ_BROKER_API_H

#include "out.h"
#include "random.h"
#include "seen.h"

struct api {
    struct random *random;
    const struct seen *seen;
    const char *token; /* shown with each request; NULL: none */
    bool looks;        /* lists, statistics, histories, pages; else tasks, from which ids are learned */
};

enum api_end {
    API_GOES_ON,
    API_ENDS, /* nothing can be said after it that would be understood */
    API_HANGS /* it waits for long, or is not whole */
};

/* Appends a request. */
enum api_end api_request(const struct api *api, struct out *out);

/* ---- of its insides: api_json.c */
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
/* A queue's name, as text. */
void api_queue(const struct api *api, struct out *out);
/* ---- api_frame.c: the head's fields about the body, and the body. */
enum api_end api_frame(const struct api *api, const struct out *body, struct out *out);

#endif
