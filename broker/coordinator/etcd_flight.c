/* etcd_flight.c: sends the calls to etcd and interprets the answers.
 *
 *   read     range, linearizable (etcd's default: a member asks the others before it answers)
 *   change   txn: compare the version, and the last known revision and value; put; read all keys again
 *
 * A change is *done* if etcd says that the transaction succeeded and its reads show the new value. It is *refused* if
 * etcd says that it failed and its reads show another entry. Everything else is *unknown*: the connection was lost
 * after a part may have been sent, a timeout, a change of leader, no space. An unanswered change may still be executed.
 * So a change is sent again only if no byte of it left this host, or if etcd refused its token without looking at the
 * change. A read is repeated until its deadline. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd.h"
#include "frame.h"

#define AGAIN_MS 100

int etcd_flight_make(struct etcd *etcd, struct coordinator_call *call) {
    struct etcd_flight *flight = calloc(1, sizeof *flight);
    if (flight == NULL) return 1;
    flight->etcd = etcd;
    flight->call = call;
    call->flight = flight;
    flight->next = etcd->flights;
    etcd->flights = flight;
    return 0;
}

void etcd_flight_free(struct etcd_flight *flight) {
    struct etcd_flight **at = &flight->etcd->flights;
    while (*at != flight) at = &(*at)->next;
    *at = flight->next;
    exchange_drop(&flight->etcd->gateway, &flight->exchange);
    free(flight);
}

static void finish(struct etcd_flight *flight, enum pair_outcome outcome) {
    struct coordinator_call *call = flight->call;
    struct coordinator *coordinator = flight->etcd->coordinator;
    etcd_flight_free(flight);
    coordinator_finish(coordinator, call, outcome);
}

static void finish_unknown(struct etcd_flight *flight, const char *host, const char *why) {
    snprintf(flight->call->reason, sizeof flight->call->reason, "coordinator: etcd at %s: %.1000s", host, why);
    finish(flight, PAIR_UNKNOWN);
}

static void wait_again(struct etcd_flight *flight) {
    exchange_drop(&flight->etcd->gateway, &flight->exchange);
    flight->endpoint = NULL;
    flight->again_ms = coordinator_now_ms() + AGAIN_MS;
}

/* ---- last known versions */

static struct etcd_known *known_of(struct etcd *etcd, const char *name) {
    for (size_t i = 0; i < COORDINATOR_NAMES_MAX; i++) {
        struct etcd_known *known = &etcd->known[i];
        if (known->name[0] == '\0') snprintf(known->name, sizeof known->name, "%s", name);
        if (strcmp(known->name, name) == 0) return known;
    }
    assert(!"more entries than COORDINATOR_NAMES_MAX");
    return NULL;
}

/* Returns the trait. Its mark includes the value, because an etcd that was restored to an older state repeats
 * revisions. */
static struct coordinator_trait trait_of(const struct etcd_entry *entry) {
    uint64_t sums[2] = {entry->mark, frame_sum(entry->value, entry->size)};
    return (struct coordinator_trait){.birth = entry->birth, .mark = frame_sum(sums, sizeof sums)};
}

/* Stores an entry to compare later versions with. Forgets an entry that is not believed, so that no change is based on
 * it. */
static void know(struct etcd *etcd, const char *name, const struct etcd_entry *entry) {
    const struct coordinator_trait trait = trait_of(entry);
    if (coordinator_believes(etcd->coordinator, name, entry->version, &trait)) known_of(etcd, name)->entry = *entry;
}

/* ---- sending */

static void set_key(const struct etcd *etcd, const char *name, char out[ETCD_KEY_SIZE]) {
    snprintf(out, ETCD_KEY_SIZE, "%s%s", etcd->prefix, name);
}

static char *ask_change(struct etcd_flight *flight) {
    struct coordinator_call *call = flight->call;
    for (size_t i = 0; i < call->count; i++) {
        const struct coordinator_change *change = &call->changes[i];
        const struct etcd_entry *seen = &known_of(flight->etcd, change->name)->entry;
        set_key(flight->etcd, change->name, flight->keys[i]);
        bool is_known = change->version > 0 && seen->version == change->version;
        if (is_known) flight->entries[i] = *seen;
        flight->changes[i] = (struct etcd_change){.key = flight->keys[i],
                                                  .change = change,
                                                  .known = is_known ? &flight->entries[i] : NULL};
    }
    return etcd_ask_change(flight->changes, call->count);
}

static void flight_over(struct exchange *exchange, enum exchange_end end);

static void send_one(struct etcd_flight *flight) {
    struct etcd *etcd = flight->etcd;
    bool is_read = flight->call->name != NULL;
    if (is_read) set_key(etcd, flight->call->name, flight->keys[0]);
    struct request request = {.host = etcd->current->host,
                              .path = is_read ? "kv/range" : "kv/txn",
                              .body = is_read ? etcd_ask_range(flight->keys[0]) : ask_change(flight),
                              .token = etcd->token,
                              .is_change = !is_read};
    flight->endpoint = etcd->current;
    flight->token_number = etcd->token_number;
    flight->exchange.over = flight_over;
    if (exchange_begin(&etcd->gateway, &flight->exchange, &request) != 0)
        finish_unknown(flight, request.host, "out of memory for the request");
}

/* Returns the oldest waiting flight that is due. Starts from the head each time: a flight that fails at once is
 * finished, and its `done` may have added another flight. */
static struct etcd_flight *find_waiting(const struct etcd *etcd, uint64_t now_ms) {
    struct etcd_flight *flight = etcd->flights, *oldest = NULL;
    for (; flight != NULL; flight = flight->next)
        if (flight->endpoint == NULL && flight->again_ms <= now_ms)
            oldest = flight; /* the list is newest first, so the last one found is the oldest */
    return oldest;
}

void etcd_flights_send(struct etcd *etcd) {
    uint64_t now_ms = coordinator_now_ms();
    for (struct etcd_flight *flight; etcd->is_up && (flight = find_waiting(etcd, now_ms)) != NULL;) send_one(flight);
}

void etcd_flights_move(struct etcd *etcd) {
    for (struct etcd_flight *flight = etcd->flights; flight != NULL; flight = flight->next) {
        if (flight->endpoint == NULL || flight->endpoint == etcd->current) continue;
        if (flight->call->name == NULL && !exchange_is_unsent(&etcd->gateway, &flight->exchange)) continue;
        wait_again(flight);
        flight->again_ms = 0;
    }
}

uint64_t etcd_flights_again_ms(const struct etcd *etcd) {
    uint64_t first_ms = UINT64_MAX;
    for (const struct etcd_flight *flight = etcd->flights; flight != NULL; flight = flight->next)
        if (flight->endpoint == NULL && flight->again_ms < first_ms) first_ms = flight->again_ms;
    return first_ms;
}

/* ---- responses */

static void land_read(struct etcd_flight *flight) {
    struct etcd *etcd = flight->etcd;
    struct coordinator_call *call = flight->call;
    struct etcd_entry *entry = &flight->entries[0];
    char why[COORDINATOR_MESSAGE_SIZE];
    uint64_t cluster;
    if (etcd_take_range(flight->exchange.answer, flight->exchange.size, flight->keys[0], &cluster, entry, why) != 0 ||
        !etcd_is_ours(etcd, cluster, why)) {
        finish_unknown(flight, flight->endpoint->host, why);
        return;
    }
    if (!call->is_presence) know(etcd, call->name, entry);
    call->version = call->is_presence ? entry->version > 0 : entry->version;
    if (entry->version > 0) {
        call->traits[0] = trait_of(entry);
        call->size = entry->size;
        memcpy(call->value, entry->value, entry->size + 1);
    }
    finish(flight, PAIR_DONE);
}

static void finish_changed(struct etcd_flight *flight) {
    struct coordinator_call *call = flight->call;
    for (size_t i = 0; i < call->count; i++) {
        if (call->changes[i].value == NULL) continue;
        know(flight->etcd, call->changes[i].name, &flight->entries[i]);
        call->changes[i].version = flight->entries[i].version;
        call->traits[i] = trait_of(&flight->entries[i]);
    }
    etcd_has_room(flight->etcd, true);
    finish(flight, PAIR_DONE);
}

static void finish_refused(struct etcd_flight *flight, const struct etcd_entry *found) {
    struct coordinator_call *call = flight->call;
    size_t i = 0;
    while (i + 1 < call->count && found[i].version == call->changes[i].version) i++;
    snprintf(call->reason, sizeof call->reason,
             "coordinator: entry '%s' is at version %" PRIu64 ", with another content or history than this node read "
             "at version %" PRIu64 ": another process changed it",
             call->changes[i].name, found[i].version, call->changes[i].version);
    finish(flight, PAIR_REFUSED);
}

static void land_change(struct etcd_flight *flight) {
    struct etcd_entry found[COORDINATOR_CHANGES_MAX];
    char why[COORDINATOR_MESSAGE_SIZE];
    uint64_t cluster;
    bool happened;
    const struct exchange *exchange = &flight->exchange;
    if (etcd_take_change(exchange->answer, exchange->size, flight->changes, flight->call->count, &cluster, &happened,
                         found, why) != 0 ||
        !etcd_is_ours(flight->etcd, cluster, why)) {
        finish_unknown(flight, flight->endpoint->host, why);
    } else if (happened) {
        memcpy(flight->entries, found, sizeof found);
        finish_changed(flight);
    } else {
        finish_refused(flight, found);
    }
}

static void land_refusal(struct etcd_flight *flight) {
    struct etcd *etcd = flight->etcd;
    const struct exchange *exchange = &flight->exchange;
    char text[COORDINATOR_MESSAGE_SIZE], why[COORDINATOR_MESSAGE_SIZE];
    enum etcd_refusal refusal = etcd_take_refusal(exchange->status, exchange->answer, exchange->size, text);
    if (refusal == ETCD_TOKEN_OLD &&
        etcd->credentials != NULL) { /* etcd refused the token and executed nothing, so the call may be sent again */
        etcd_forget_token(etcd, flight->token_number);
        wait_again(flight);
        return;
    }
    if (refusal == ETCD_NO_ROOM) etcd_has_room(etcd, false);
    if (refusal != ETCD_NO_ROOM) etcd_doubt(etcd);
    etcd_explain(etcd, refusal, flight->endpoint->host, text, why);
    snprintf(flight->call->reason, sizeof flight->call->reason, "coordinator: %.1400s", why);
    finish(flight, PAIR_UNKNOWN);
}

static void flight_over(struct exchange *exchange, enum exchange_end end) {
    struct etcd_flight *flight = (struct etcd_flight *)exchange; /* safe, because `exchange` is the first member */
    bool is_read = flight->call->name != NULL;
    if (end != EXCHANGE_ANSWERED) {
        etcd_doubt(flight->etcd);
        if ((end == EXCHANGE_NOT_SENT || is_read) && !exchange->is_too_large)
            wait_again(flight);
        else
            finish_unknown(flight, flight->endpoint->host, exchange->error);
    } else if (exchange->status != 200) {
        land_refusal(flight);
    } else if (is_read) {
        land_read(flight);
    } else {
        land_change(flight);
    }
}
