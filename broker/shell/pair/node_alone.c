/* node_alone.c: reports that a leader serves alone: in the program's log, in the status, and as an AlonePut record in
 * the broker's log, for an auditor; see node.h and alone.h.
 *
 * The pair thread notes in node->alone that such a period begins or ends. Once the core decides, its thread checks
 * whether the log has recorded that. If not, the core handles CORE_ALONE.
 *
 * A period that ended before the core could record it leaves no record: nothing was decided in that period, so nothing
 * was acknowledged. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "inbox.h"
#include "logfmt.h"
#include "monotonic.h"
#include "node.h"

static const char meaning[] =
    "changes that this node acknowledges from now on are only on its disk, and are lost with it: start the other node";

/* ---- pair thread */

void node_show_alone(struct node *node) {
    const struct pair *pair = &node->pair;
    uint64_t now_ns = monotonic_ns();
    pthread_mutex_lock(&node->mutex);
    bool is_news = alone_look(&node->alone, pair, now_ns);
    pthread_mutex_unlock(&node->mutex);
    if (!is_news) return;
    if (node->alone.is)
        logfmt_warning("serves_alone", "epoch=%u committed=%" PRIu64 " reason=\"%s\"", pair->epoch, pair->committed,
                       meaning);
    else
        logfmt("serves_alone_no_more", "epoch=%u committed=%" PRIu64 " alone_ms=%" PRIu64, pair->epoch, pair->committed,
               (now_ns - node->alone.since_ns) / NS_PER_MS);
    inbox_nudge(node->needs.inbox);
}

void node_alone_told(struct node *node, const struct call *call) {
    const struct core_request *request = &call->engine_request.event.request;
    pthread_mutex_lock(&node->mutex);
    alone_because(&node->alone, TARRY__ALONE_PUT__WHY__TOLD);
    snprintf(node->teller.client, sizeof(node->teller.client), "%s", request->message->client);
    snprintf(node->teller.peer, sizeof(node->teller.peer), "%s", request->peer != NULL ? request->peer : "");
    snprintf(node->teller.principal, sizeof(node->teller.principal), "%s",
             request->caller != NULL ? request->caller->name : "");
    pthread_mutex_unlock(&node->mutex);
}

/* ---- core thread */

static void name_teller(struct node_alone_fact *fact) {
    tarry__request__init(&fact->message);
    fact->message.client = fact->teller.client;
    fact->caller = (struct core_caller){.name = fact->teller.principal};
    fact->by = (struct core_request){.message = &fact->message, .peer = fact->teller.peer, .caller = &fact->caller};
}

bool node_is_alone_news(struct node *node, struct node_alone_fact *out, struct core_event *out_event) {
    static const uint8_t nobody[MEMBER_ID_SIZE];
    struct alone *recorded = &node->alone_recorded;
    pthread_mutex_lock(&node->mutex);
    struct alone alone = node->alone;
    bool is_same = alone.is == recorded->is && (!alone.is || alone.since_ns == recorded->since_ns);
    if (!is_same) { /* each turn of the core calls this: copy only what is needed */
        memcpy(out->member, node->hard_state.peer, MEMBER_ID_SIZE);
        out->teller = node->teller;
    }
    pthread_mutex_unlock(&node->mutex);
    if (is_same) return false;
    bool is_over = recorded->is; /* if the node serves alone again, the next call reports that */
    if (is_over) {
        recorded->is = false;
    } else {
        struct instant now = clock_now(node->needs.clock, NULL);
        uint64_t ago_ns = monotonic_ns() - alone.since_ns;
        *recorded = alone;
        node->alone_since_ms = (now.steady_ns > ago_ns ? now.steady_ns - ago_ns : 0) / NS_PER_MS;
    }
    tarry__alone_put__init(&out->put);
    out->put.over = is_over;
    out->put.why = recorded->why;
    out->put.since_ms = node->alone_since_ms;
    out->put.alone_from = recorded->position;
    if (memcmp(out->member, nobody, MEMBER_ID_SIZE) != 0)
        out->put.member = (ProtobufCBinaryData){MEMBER_ID_SIZE, out->member};
    bool is_told = !is_over && recorded->why == TARRY__ALONE_PUT__WHY__TOLD;
    if (is_told) name_teller(out);
    *out_event = (struct core_event){.kind = CORE_ALONE, .alone = {.put = &out->put, .by = is_told ? &out->by : NULL}};
    return true;
}
