/* request.h: converts the bytes of a request into an event for the core. Pure except for random salts; any thread. */
#ifndef TARRY_SHELL_REQUEST_H
#define TARRY_SHELL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core.h"
#include "datadir.h"

/* Counts the parts of a packed request before the request is unpacked. So a flood of requests costs no memory, and a
 * short request cannot make a large table (F-20, CAP-1).
 *
 * The counts are used only to refuse a request. They do not decide the request's type, because protobuf-c has its own
 * rules for repeated fields (the last member of a oneof wins). All further decisions use the unpacked request. */
struct request_peek {
    size_t body_count;    /* bodies of a type that this broker knows; the unpacked request has at most one of them */
    bool schedules;       /* some commit contains a schedule operation */
    size_t op_count;      /* number of operations in all commits */
    size_t op_bodies_max; /* the largest number of bodies in one operation */
    size_t queue_count;   /* number of queues in all subscriptions */
};
/* Counts `data`. Returns false if it is not a protobuf message. */
bool request_peek(const uint8_t *data, size_t size, struct request_peek *out);

/* Reason why a request is refused. */
struct request_refusal {
    Tarry__Code code;
    const char *sentence;
};

/* Parameters for checking a request. */
struct request_setting {
    const uint8_t *secret; /* the data directory's secret, IDENTITY_SECRET_SIZE bytes */
    const char *principal; /* the requester's name, as in records; it can resume only its own sessions */
    uint32_t payload_max;
};

/* Unpacks and checks a request and fills in kind, request, contents and, for a resumed subscription, session. There is
 * one content per operation of a commit; its bytes, salt included, are in `arena`. Kind 0 means that the request is not
 * for the core (audit, backup, follow, pair). Returns false with the reason in `*out_refusal`. */
bool request_prepare(struct arena *arena, const uint8_t *data, size_t size, const struct request_setting *setting,
                     struct core_request *out, struct request_refusal *out_refusal);
/* Returns whether the request is a commit that contains an operation of this type. */
bool request_has_op(const Tarry__Request *request, Tarry__Op__OpCase op_case);

#endif
