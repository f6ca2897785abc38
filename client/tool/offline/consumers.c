/* consumers.c: see consumers.h. The broker numbers sessions consecutively, so the low bits of the number are the place
 * in the table. */
#include "consumers.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define SLOTS 4096u

struct consumers {
    struct consumer slots[SLOTS];
};

struct consumers *consumers_new(void) {
    struct consumers *consumers = tool_alloc(sizeof *consumers);
    memset(consumers, 0, sizeof *consumers);
    return consumers;
}

void consumers_free(struct consumers *consumers) {
    free(consumers);
}

static void note(struct consumers *consumers, uint64_t session, const char *client, const char *peer) {
    struct consumer *slot = &consumers->slots[session % SLOTS];
    if (slot->session == session && strcmp(slot->peer, peer) == 0) return;
    slot->session = session;
    snprintf(slot->client, sizeof slot->client, "%s", client);
    snprintf(slot->peer, sizeof slot->peer, "%s", peer);
}

void consumers_learn(struct consumers *consumers, const Tarry__FrameBody *body, const Tarry__Record *record) {
    if (record->fact_case == TARRY__RECORD__FACT_SESSION)
        note(consumers, record->session->session, record->session->client, record->session->peer);
    /* All leases of a frame are for one consumer, whose name is in the frame. */
    bool is_lease = record->fact_case == TARRY__RECORD__FACT_PUT && record->put->cause == TARRY__CAUSE__CAUSE_LEASED;
    if (is_lease && body->client[0] != '\0' && record->put->task != NULL)
        note(consumers, record->put->task->session, body->client, body->peer);
}

const struct consumer *consumers_find(const struct consumers *consumers, uint64_t session) {
    const struct consumer *slot = &consumers->slots[session % SLOTS];
    return session != 0 && slot->session == session ? slot : NULL;
}
