/* etcd_lease.c: this process's presence: a key with a lease.
 *
 *   grant ──► put, with the lease ──► keepalive, PRESENCE_PARTS times per lifetime ──► … ──► revoke, when no presence
 * is ▲                                   │                                                  declared; deletes the key
 *     └──── refused, or expired ◄─────────┘
 *
 * An unanswered request is repeated, or the sequence starts again, at the next turn that is due. A lease whose grant
 * got no answer expires by itself. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "etcd.h"

#define LEASE_MIN_S 2 /* minimum TTL of an etcd lease, in seconds */

static struct etcd *etcd_of(struct exchange *exchange) {
    return (struct etcd *)((char *)exchange - offsetof(struct etcd, lease.exchange));
}

static void next_step(struct etcd_lease *lease, enum lease_step step, uint64_t after_ms) {
    lease->step = step;
    lease->again_ms = coordinator_now_ms() + after_ms;
}

static void begin_anew(struct etcd *etcd) {
    coordinator_stood(etcd->coordinator, NULL);
    next_step(&etcd->lease, LEASE_GRANT, etcd->presence_ms / PRESENCE_PARTS);
}

static void stood(struct etcd *etcd) {
    next_step(&etcd->lease, LEASE_KEEP, etcd->presence_ms / PRESENCE_PARTS);
    coordinator_stood(etcd->coordinator, etcd->lease.presence.text);
}

static void take_answer(struct etcd *etcd) {
    struct etcd_lease *lease = &etcd->lease;
    const struct exchange *exchange = &lease->exchange;
    char why[COORDINATOR_MESSAGE_SIZE];
    uint64_t id = 0, seconds = 0;
    bool has_lease = lease->step == LEASE_GRANT || lease->step == LEASE_KEEP;
    bool is_good = !has_lease || etcd_take_lease(exchange->answer, exchange->size, &id, &seconds, why) == 0;
    if (lease->step == LEASE_REVOKE)
        next_step(lease, LEASE_GRANT, 0);
    else if (!is_good || (lease->step == LEASE_KEEP && (seconds == 0 || id != lease->id)))
        begin_anew(etcd); /* the lease has expired, so start with a new one */
    else if (lease->step == LEASE_GRANT)
        next_step(lease, LEASE_PUT, 0);
    else if (lease->step == LEASE_PUT)
        stood(etcd);
    else
        next_step(lease, LEASE_KEEP, etcd->presence_ms / PRESENCE_PARTS);
    if (id != 0) lease->id = id;
}

static void lease_over(struct exchange *exchange, enum exchange_end end) {
    struct etcd *etcd = etcd_of(exchange);
    struct etcd_lease *lease = &etcd->lease;
    char text[COORDINATOR_MESSAGE_SIZE];
    if (end != EXCHANGE_ANSWERED) { /* without an answer, the request may have been executed; to repeat it for the same
                                       lease is harmless */
        next_step(lease, lease->step, etcd->presence_ms / PRESENCE_PARTS);
        etcd_doubt(etcd);
        return;
    }
    if (exchange->status == 200) {
        take_answer(etcd);
        return;
    }
    if (etcd_take_refusal(exchange->status, exchange->answer, exchange->size, text) == ETCD_TOKEN_OLD)
        etcd_forget_token(etcd, lease->token_number);
    begin_anew(etcd);
}

static void ask(struct etcd *etcd) {
    struct etcd_lease *lease = &etcd->lease;
    static const char *const paths[] = {[LEASE_GRANT] = "lease/grant",
                                        [LEASE_PUT] = "kv/put",
                                        [LEASE_KEEP] = "lease/keepalive",
                                        [LEASE_REVOKE] = "lease/revoke"};
    char key[ETCD_KEY_SIZE];
    uint64_t seconds = (etcd->presence_ms + 999) / 1000;
    snprintf(key, sizeof key, "%s%s", etcd->prefix, lease->presence.name);
    struct request request = {.host = etcd->current->host,
                              .path = paths[lease->step],
                              .token = etcd->token,
                              .timeout_ms = etcd->presence_ms / 2};
    if (lease->step == LEASE_GRANT)
        request.body = etcd_ask_lease(seconds < LEASE_MIN_S ? LEASE_MIN_S : seconds);
    else if (lease->step == LEASE_PUT)
        request.body = etcd_ask_put(key, lease->presence.text, lease->id);
    else
        request.body = etcd_ask_with_lease(lease->id);
    lease->token_number = etcd->token_number;
    lease->exchange.over = lease_over;
    if (exchange_begin(&etcd->gateway, &lease->exchange, &request) != 0) begin_anew(etcd);
}

void etcd_declare(void *state, const struct presence *presence) {
    struct etcd *etcd = state;
    struct etcd_lease *lease = &etcd->lease;
    bool holds = lease->step == LEASE_KEEP;
    bool is_other = presence != NULL && (strcmp(lease->presence.name, presence->name) != 0 ||
                                         strcmp(lease->presence.text, presence->text) != 0);
    lease->is_wanted = presence != NULL;
    if (lease->exchange.easy != NULL) return;
    if (is_other) lease->presence = *presence;
    if (holds && is_other) next_step(lease, LEASE_PUT, 0);
    if (holds && presence == NULL) next_step(lease, LEASE_REVOKE, 0);
}

void etcd_lease_turn(struct etcd *etcd, uint64_t now_ms) {
    struct etcd_lease *lease = &etcd->lease;
    bool is_due = lease->is_wanted || lease->step == LEASE_REVOKE;
    if (is_due && lease->exchange.easy == NULL && now_ms >= lease->again_ms) ask(etcd);
}
