/* core_ledger.h: what the clients of a history know: what they asked, what was answered, what a naive model predicts,
 * what consumers have seen. Kept outside the core, and compared with it. */
#ifndef TARRY_TESTS_CORE_LEDGER_H
#define TARRY_TESTS_CORE_LEDGER_H

#include "core_world.h"

#define REQUESTS_MAX 1024
#define PRODUCERS 2

struct request {
    uint64_t ticket; /* index + 1 */
    Tarry__Request *request;
    struct core_content *contents;
    bool predicted;
    Tarry__Code code;
    Tarry__Outcome outcome;
    uint64_t id; /* predicted; 0: not */
    bool answered;
    uint8_t *answer; /* packed CommitReply */
    size_t answer_size;
};

struct ledger {
    struct world *world;
    struct request requests[REQUESTS_MAX];
    size_t request_count;
    uint64_t producer[PRODUCERS]; /* 0: none yet */
    uint64_t sequence[PRODUCERS];
    bool seen[FLAT_TASKS_MAX];           /* delivered to a consumer */
    bool over[FLAT_TASKS_MAX];           /* an ack or cancel of it was answered … */
    uint32_t deliveries[FLAT_TASKS_MAX]; /* … and that it had left so often */
    bool accepted[FLAT_TASKS_MAX];       /* its schedule was answered */
    bool calm;
};

/* The hooks of the world: `observer` is the ledger. */
void ledger_predict(void *observer, const struct core_event *event);
void ledger_on_reply(void *observer, uint64_t ticket, const Tarry__Reply *reply, const Tarry__CommitReply *commit);
void ledger_on_delivery(void *observer, const struct core_delivery *delivery);
void ledger_on_frame(void *observer, const Tarry__FrameBody *body);
/* At the end: nothing accepted is lost, nothing that was said to have ended lives. */
void ledger_check(const struct ledger *ledger);

#endif
