/* etcd.c: etcd://host:port,host:port/path, and etcds:// with TLS. Chooses the member, has the credentials, and
 * sends the calls.
 *
 *   start ── probe all members ──► current ── a probe each quarter of a session ──► … ── no answer, or a call failed
 *              ▲    first answer      │                                                    │
 *              └──────────────────────┴────────────────── probe all again ◄────────────────┘
 *
 * A probe is a linearizable read, because a member without a connection to the others answers all other requests.
 * So a member that answers a probe has a majority, and all calls go to that member.
 *
 * All hosts must be members of one cluster, because a record in each of two clusters would allow two leaders. So the
 * cluster's id is learned once. While any host answers with another id, no call is sent.
 *
 * One watch covers all keys of the pair. Any event of the watch means: read the entries again. */
#include <assert.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator_backend.h"
#include "etcd_gateway.h"
#include "frame.h"
#include "place.h"

/* Only the coordinator's thread uses the data of this file. */

#define ETCD_HOSTS_MAX 9

struct etcd;

/* One of the hosts, and the probe that tests whether it serves. */
struct endpoint {
    struct exchange probe;
    struct etcd *etcd;
    uint64_t token_number;                   /* number of the token with which the running probe was sent */
    uint64_t answered_ms;                    /* time of the host's last answer; 0: no answer yet */
    uint64_t failed_ms;                      /* time of the host's last failure, which `problem` describes */
    uint64_t cluster;                        /* id of the host's cluster; 0: unknown */
    bool asks_token;                         /* true: the exchange is a request for a token, which precedes the probe */
    bool has_asked_token;                    /* a token was requested since the probe began */
    bool is_forbidden;                       /* true: only an operator can solve `problem` */
    char host[COORDINATOR_URL_SIZE_MAX + 1]; /* host:port */
    char problem[COORDINATOR_MESSAGE_SIZE];
};

/* A call, as sent to etcd. */
struct etcd_flight {
    struct exchange exchange;
    struct etcd_flight *next;
    struct etcd *etcd;
    struct coordinator_call *call;
    const struct endpoint *endpoint; /* member that got the call; NULL: not sent yet */
    uint64_t again_ms;               /* time before which the call is not sent */
    uint64_t token_number;
    struct etcd_change changes[COORDINATOR_CHANGES_MAX];
    char keys[COORDINATOR_CHANGES_MAX][ETCD_KEY_SIZE];
    struct etcd_entry entries[COORDINATOR_CHANGES_MAX];
};

/* Last version of an entry that this process has read or written. */
struct etcd_known {
    char name[COORDINATOR_NAME_SIZE_MAX + 1]; /* "": unused */
    struct etcd_entry entry;
};

enum lease_step { LEASE_GRANT = 0, LEASE_PUT, LEASE_KEEP, LEASE_REVOKE };

/* The lease of this process's declared presence. */
struct etcd_lease {
    struct exchange exchange;
    enum lease_step step; /* step of the lease that is running, or the next one */
    bool is_wanted;
    uint64_t again_ms; /* time before which no step of the lease begins */
    uint64_t id;
    uint64_t token_number;
    struct presence presence;
};

struct etcd {
    struct coordinator *coordinator;
    struct gateway gateway;
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    char prefix[COORDINATOR_URL_SIZE_MAX + 2]; /* prefix of all keys: the path and a '/' */
    char *credentials;                         /* NULL: none */
    char *token;                               /* token for etcd's authentication; NULL: none yet */
    uint64_t token_number;                     /* number of the token; it grows with each new token */
    uint32_t session_ms;
    uint32_t presence_ms;
    size_t endpoint_count;
    struct endpoint endpoints[ETCD_HOSTS_MAX];
    struct endpoint *current; /* member that gets all calls; NULL: none */
    uint64_t cluster;         /* id of the cluster; 0: unknown */
    uint64_t sessions;        /* number of times that `is_up` became true */
    uint64_t begun_ms;        /* time at which the first probes were sent */
    uint64_t heard_ms;        /* time of a member's last answer */
    /* Time in ms at which the search for a member that serves began; valid if `is_searching` is true. */
    uint64_t search_ms;
    uint64_t probe_ms; /* time of the next round of probes */
    uint64_t watch_ms; /* time before which the watch is not started */
    struct exchange watch;
    struct etcd_lease lease;
    bool is_up;         /* true: calls can be sent to the current member */
    bool is_searching;  /* true: it is unknown whether the current member serves; all members are probed, and the first
                           that answers becomes the current one */
    bool is_told_up;    /* true: the session was reported as connected */
    bool has_no_room;   /* true: etcd's storage quota permits no changes */
    bool is_changed;    /* the watch has reported a change */
    bool is_watch_up;   /* etcd has confirmed the watch */
    bool is_watch_over; /* true: etcd has ended the watch, though the connection is open */
    struct etcd_flight *flights;
    struct etcd_known known[COORDINATOR_NAMES_MAX];
};

/* ---- messages for the operator */

static int user_size(const struct etcd *etcd) {
    return etcd->credentials == NULL ? 0 : (int)strcspn(etcd->credentials, ":");
}

/* Describes a refusal for the operator; `text` is etcd's error message. */
static void etcd_explain(const struct etcd *etcd, enum etcd_refusal refusal, const char *host, const char *text,
                         char out[COORDINATOR_MESSAGE_SIZE]) {
    const char *user = etcd->credentials == NULL ? "" : etcd->credentials;
    int size = user_size(etcd);
    switch (refusal) {
    case ETCD_NO_TOKEN:
        snprintf(
            out, COORDINATOR_MESSAGE_SIZE,
            "etcd at %.300s requires a user and password: set --coordinator-credentials to a file with user:password",
            host);
        return;
    case ETCD_WRONG_USER:
        snprintf(
            out, COORDINATOR_MESSAGE_SIZE,
            "etcd at %.300s refuses the user '%.*s' or the password: correct the file of --coordinator-credentials and "
            "restart this node",
            host, size, user);
        return;
    case ETCD_FORBIDDEN:
        snprintf(out, COORDINATOR_MESSAGE_SIZE,
                 "etcd at %.300s does not let the user '%.*s' read and write all keys below %.400s: type 'etcdctl role "
                 "grant-permission ROLE --prefix=true readwrite %.400s'",
                 host, size, user, etcd->prefix, etcd->prefix);
        return;
    case ETCD_NO_USERS:
        snprintf(
            out, COORDINATOR_MESSAGE_SIZE,
            "etcd at %.300s has authentication turned off, so any client can change the record: type 'etcdctl auth "
            "enable', or start this node without --coordinator-credentials",
            host);
        return;
    case ETCD_NO_ROOM:
        snprintf(
            out, COORDINATOR_MESSAGE_SIZE,
            "etcd at %.300s has used up its quota and takes no change, so neither node can take over: type 'etcdctl "
            "compact REVISION', 'etcdctl defrag' and 'etcdctl alarm disarm', or raise --quota-backend-bytes",
            host);
        return;
    case ETCD_TOKEN_OLD:
    case ETCD_OTHER:
        break;
    }
    snprintf(out, COORDINATOR_MESSAGE_SIZE, "etcd at %.300s: %.1000s", host, text);
}

static void say_up(struct etcd *etcd) {
    char why[COORDINATOR_MESSAGE_SIZE] = "";
    if (etcd->has_no_room) etcd_explain(etcd, ETCD_NO_ROOM, etcd->current->host, "", why);
    coordinator_is(etcd->coordinator, COORDINATOR_CONNECTED, etcd->sessions, "%s", why);
}

/* Notes whether etcd's storage quota permits changes. */
static void etcd_has_room(struct etcd *etcd, bool has_room) {
    etcd->has_no_room = !has_room;
    say_up(etcd);
}

#define WORST_SIZE 200 /* maximum size in bytes of one host's problem if several are reported */

static void say_problems(struct etcd *etcd) {
    char all[COORDINATOR_MESSAGE_SIZE] = "";
    const struct endpoint *forbidden = NULL;
    for (size_t i = 0; i < etcd->endpoint_count; i++) {
        const struct endpoint *endpoint = &etcd->endpoints[i];
        size_t size = strlen(all);
        if (endpoint->is_forbidden) forbidden = endpoint;
        if (endpoint->problem[0] != '\0' && size + WORST_SIZE + 3 < sizeof all)
            snprintf(all + size, WORST_SIZE + 3, "%s%s", size > 0 ? "; " : "", endpoint->problem);
    }
    if (forbidden != NULL)
        coordinator_is(etcd->coordinator, COORDINATOR_FORBIDDEN, etcd->sessions, "coordinator: %s", forbidden->problem);
    else if (all[0] != '\0')
        coordinator_is(etcd->coordinator, COORDINATOR_CONNECTING, etcd->sessions,
                       "no connection to etcd at %s: %.1000s; is it running there, and can this host reach it?",
                       etcd->hosts, all);
    else
        coordinator_is(etcd->coordinator, COORDINATOR_CONNECTING, etcd->sessions, "connecting to etcd at %s",
                       etcd->hosts);
}

/* ---- the token, and doubts about the current member */

static void drop_token(struct etcd *etcd) {
    if (etcd->token != NULL) sodium_memzero(etcd->token, strlen(etcd->token));
    free(etcd->token);
    etcd->token = NULL;
}

/* Reports that the current member failed a call. Starts a search for another member at once. */
static void etcd_doubt(struct etcd *etcd) {
    uint64_t now_ms = coordinator_now_ms();
    if (!etcd->is_searching) etcd->search_ms = now_ms;
    if (etcd->is_up) etcd->probe_ms = now_ms;
    etcd->is_searching = true;
    etcd->is_up = false;
}

/* Drops the token with this number, because etcd does not accept it any more. */
static void etcd_forget_token(struct etcd *etcd, uint64_t number) {
    if (number != etcd->token_number) return; /* the token was already replaced by a newer one */
    drop_token(etcd);
    etcd_doubt(etcd);
}

/* ---- calls */

/* Sends the calls to etcd and interprets the answers.
 *
 *   read     range, linearizable (etcd's default: a member asks the others before it answers)
 *   change   txn: compare the version, and the last known revision and value; put; read all keys again
 *
 * A change is *done* if etcd says that the transaction succeeded and its reads show the new value. A change is
 * *refused* if etcd says that the transaction failed and its reads show another entry. In all other cases the
 * outcome is *unknown*: the connection was lost after a part of the request may have been sent, a timeout, a change
 * of leader, no space. etcd may still execute a change that it has not answered. So a change is sent again only if
 * no byte of it left this host, or if etcd refused the token before it looked at the change. A read is repeated
 * until its deadline. */

#define AGAIN_MS 100

/* Makes the request to etcd for `call`, to be sent later. Returns 0, or 1 if memory is exhausted. */
static int etcd_flight_make(struct etcd *etcd, struct coordinator_call *call) {
    struct etcd_flight *flight = calloc(1, sizeof *flight);
    if (flight == NULL) return 1;
    flight->etcd = etcd;
    flight->call = call;
    call->flight = flight;
    flight->next = etcd->flights;
    etcd->flights = flight;
    return 0;
}

/* Removes a request from the list and frees it. If it is running, its transfer is cancelled. */
static void etcd_flight_free(struct etcd_flight *flight) {
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

/* Returns the trait of the entry, by which the coordinator recognizes another history. The trait's mark includes the
 * value, because an etcd that was restored to an older state repeats revision numbers. */
static struct coordinator_trait trait_of(const struct etcd_entry *entry) {
    uint64_t sums[2] = {entry->mark, frame_sum(entry->value, entry->size)};
    return (struct coordinator_trait){.birth = entry->birth, .mark = frame_sum(sums, sizeof sums)};
}

/* Stores an entry, so that later changes can be based on its version. Stores nothing if the entry contradicts earlier
 * answers (coordinator_believes). */
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

/* Returns the oldest waiting request that is due. Starts from the head each time: a request that fails at once is
 * finished, and its call's `done` may have added another request. */
static struct etcd_flight *find_waiting(const struct etcd *etcd, uint64_t now_ms) {
    struct etcd_flight *flight = etcd->flights, *oldest = NULL;
    for (; flight != NULL; flight = flight->next)
        if (flight->endpoint == NULL && flight->again_ms <= now_ms)
            oldest = flight; /* the newest flight is the first of the list, so the last match is the oldest flight */
    return oldest;
}

/* Sends all waiting requests that are due. */
static void etcd_flights_send(struct etcd *etcd) {
    uint64_t now_ms = coordinator_now_ms();
    for (struct etcd_flight *flight; etcd->is_up && (flight = find_waiting(etcd, now_ms)) != NULL;) send_one(flight);
}

/* Sends requests to the new current member: those not sent yet, and those that may be repeated. */
static void etcd_flights_move(struct etcd *etcd) {
    for (struct etcd_flight *flight = etcd->flights; flight != NULL; flight = flight->next) {
        if (flight->endpoint == NULL || flight->endpoint == etcd->current) continue;
        if (flight->call->name == NULL && !exchange_is_unsent(&etcd->gateway, &flight->exchange)) continue;
        wait_again(flight);
        flight->again_ms = 0;
    }
}

/* Returns when the first waiting request may be sent; UINT64_MAX: none waits. */
static uint64_t etcd_flights_again_ms(const struct etcd *etcd) {
    uint64_t first_ms = UINT64_MAX;
    for (const struct etcd_flight *flight = etcd->flights; flight != NULL; flight = flight->next)
        if (flight->endpoint == NULL && flight->again_ms < first_ms) first_ms = flight->again_ms;
    return first_ms;
}

/* ---- responses */

static void explain_cluster(uint64_t seen, uint64_t cluster, char out[COORDINATOR_MESSAGE_SIZE]) {
    snprintf(out, COORDINATOR_MESSAGE_SIZE,
             "it belongs to another cluster (id %" PRIu64 ") than the one that this node has used so far (id %" PRIu64
             "): all hosts of --coordinator must be members of one cluster. If the cluster was set up again, stop both "
             "nodes, then start the node that led last first",
             cluster, seen);
}

/* Returns whether an answer of cluster `cluster` may be believed; if not, writes an error message to `out`. */
static bool etcd_is_ours(const struct etcd *etcd, uint64_t cluster, char out[COORDINATOR_MESSAGE_SIZE]) {
    if (cluster != etcd->cluster) explain_cluster(etcd->cluster, cluster, out);
    return cluster == etcd->cluster;
}

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
    /* etcd refused the token and executed nothing, so the call may be sent again. */
    if (refusal == ETCD_TOKEN_OLD && etcd->credentials != NULL) {
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
    /* The cast is safe, because `exchange` is the first member of struct etcd_flight. */
    struct etcd_flight *flight = (struct etcd_flight *)exchange;
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

/* ---- presence */

/* This process's presence: a key with a lease.
 *
 *   grant ──► put, with the lease ──► keepalive, PRESENCE_PARTS times per lifetime ──► … ──► revoke
 *     ▲                                   │
 *     └───── refused, or expired ◄────────┘
 *
 * The revoke deletes the key; it follows when no presence is declared any more. If a request gets no answer, the
 * next turn that is due repeats the request or begins again with a grant. A lease whose grant got no answer expires
 * by itself. */

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

static void ask_lease(struct etcd *etcd) {
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

static void etcd_declare(void *state, const struct presence *presence) {
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

/* Renews or revokes the lease when due. Requires a current member. */
static void etcd_lease_turn(struct etcd *etcd, uint64_t now_ms) {
    struct etcd_lease *lease = &etcd->lease;
    bool is_due = lease->is_wanted || lease->step == LEASE_REVOKE;
    if (is_due && lease->exchange.easy == NULL && now_ms >= lease->again_ms) ask_lease(etcd);
}

/* ---- probes */

#define SEARCH_MS 250 /* interval between two rounds of probes while no member answers, in ms */
#define PROBES_A_SESSION 4

static void fail(struct endpoint *endpoint, bool is_forbidden, const char *problem) {
    endpoint->failed_ms = coordinator_now_ms();
    endpoint->is_forbidden = is_forbidden;
    snprintf(endpoint->problem, sizeof endpoint->problem, "%s", problem);
    if (endpoint == endpoint->etcd->current) etcd_doubt(endpoint->etcd);
}

static void fail_at(struct endpoint *endpoint, bool is_forbidden, const char *why) {
    char problem[COORDINATOR_MESSAGE_SIZE];
    snprintf(problem, sizeof problem, "%.300s: %.1200s", endpoint->host, why);
    fail(endpoint, is_forbidden, problem);
}

/* Probes the member. If it needs a token, requests one first. */
static void ask(struct endpoint *endpoint) {
    struct etcd *etcd = endpoint->etcd;
    endpoint->asks_token = etcd->credentials != NULL && etcd->token == NULL;
    endpoint->has_asked_token |= endpoint->asks_token;
    endpoint->token_number = etcd->token_number;
    int size = user_size(etcd);
    struct request request = {.host = endpoint->host,
                              .path = endpoint->asks_token ? "auth/authenticate" : "kv/range",
                              .body = endpoint->asks_token ? etcd_ask_token(etcd->credentials, (size_t)size,
                                                                            etcd->credentials + size + 1)
                                                           : etcd_ask_count(etcd->prefix),
                              .token = endpoint->asks_token ? NULL : etcd->token,
                              .timeout_ms = etcd->session_ms / 2};
    if (exchange_begin(&etcd->gateway, &endpoint->probe, &request) != 0)
        fail_at(endpoint, false, "out of memory for the request");
}

static void take_refusal(struct endpoint *endpoint) {
    struct etcd *etcd = endpoint->etcd;
    const struct exchange *probe = &endpoint->probe;
    char text[COORDINATOR_MESSAGE_SIZE], why[COORDINATOR_MESSAGE_SIZE];
    enum etcd_refusal refusal = etcd_take_refusal(probe->status, probe->answer, probe->size, text);
    bool wants_token = refusal == ETCD_TOKEN_OLD || refusal == ETCD_NO_TOKEN;
    if (wants_token && etcd->credentials != NULL && !endpoint->has_asked_token) {
        if (endpoint->token_number == etcd->token_number) drop_token(etcd);
        ask(endpoint);
        return;
    }
    etcd_explain(etcd, refusal, endpoint->host, text, why);
    fail(endpoint, refusal != ETCD_OTHER && refusal != ETCD_TOKEN_OLD, why);
}

static void take_token(struct endpoint *endpoint) {
    struct etcd *etcd = endpoint->etcd;
    char token[ETCD_TOKEN_SIZE_MAX + 1], why[COORDINATOR_MESSAGE_SIZE];
    if (etcd_take_token(endpoint->probe.answer, endpoint->probe.size, token, why) != 0) {
        fail_at(endpoint, false, why);
        return;
    }
    drop_token(etcd);
    etcd->token = strdup(token);
    etcd->token_number++;
    sodium_memzero(token, sizeof token);
    ask(endpoint);
}

static void probe_over(struct exchange *exchange, enum exchange_end end) {
    /* The cast is safe, because `exchange` is the first member of struct endpoint. */
    struct endpoint *endpoint = (struct endpoint *)exchange;
    char why[COORDINATOR_MESSAGE_SIZE];
    if (end != EXCHANGE_ANSWERED) {
        fail_at(endpoint, false, exchange->error);
    } else if (exchange->status != 200) {
        take_refusal(endpoint);
    } else if (endpoint->asks_token) {
        take_token(endpoint);
    } else if (etcd_take_count(exchange->answer, exchange->size, &endpoint->cluster, why) != 0) {
        fail_at(endpoint, false, why);
    } else {
        endpoint->answered_ms = coordinator_now_ms();
        endpoint->is_forbidden = false;
        endpoint->problem[0] = '\0';
        if (endpoint == endpoint->etcd->current) endpoint->etcd->heard_ms = endpoint->answered_ms;
    }
    sodium_memzero(exchange->answer, exchange->size); /* the answer may contain a token */
}

static void probe_round(struct etcd *etcd, uint64_t now_ms) {
    if (etcd->current != NULL && etcd->current->probe.easy != NULL && !etcd->is_searching) {
        /* The last probe has no answer, so search another member. Calls may still be answered. */
        etcd->is_searching = true;
        etcd->search_ms = now_ms;
    }
    for (size_t i = 0; i < etcd->endpoint_count; i++) {
        struct endpoint *endpoint = &etcd->endpoints[i];
        bool is_wanted = etcd->is_searching || endpoint == etcd->current;
        if (!is_wanted || endpoint->probe.easy != NULL) continue;
        endpoint->has_asked_token = false;
        ask(endpoint);
    }
    etcd->probe_ms = now_ms + (etcd->is_up ? etcd->session_ms / PROBES_A_SESSION : SEARCH_MS);
}

/* ---- choosing a member */

static bool is_any_asked(const struct etcd *etcd) {
    for (size_t i = 0; i < etcd->endpoint_count; i++)
        if (etcd->endpoints[i].probe.easy != NULL) return true;
    return false;
}

/* Returns a member that has answered since the search began, preferably the current one; NULL: none. */
static struct endpoint *find_serving(struct etcd *etcd) {
    struct endpoint *found = NULL;
    for (size_t i = 0; i < etcd->endpoint_count; i++) {
        struct endpoint *endpoint = &etcd->endpoints[i];
        bool serves = endpoint->answered_ms >= etcd->search_ms && endpoint->answered_ms > 0;
        if (serves && (found == NULL || endpoint == etcd->current)) found = endpoint;
    }
    return found;
}

/* Returns whether all hosts belong to one cluster. At first, waits a moment for answers of all hosts, so that two
 * clusters are noticed. */
static bool is_cluster_one(struct etcd *etcd, uint64_t now_ms) {
    uint64_t seen = etcd->cluster;
    bool is_one = true;
    char why[COORDINATOR_MESSAGE_SIZE];
    for (size_t i = 0; i < etcd->endpoint_count; i++) {
        struct endpoint *endpoint = &etcd->endpoints[i];
        if (seen == 0) seen = endpoint->cluster;
        if (endpoint->cluster == 0 || endpoint->cluster == seen) continue;
        is_one = false;
        explain_cluster(seen, endpoint->cluster, why);
        fail_at(endpoint, true, why);
    }
    if (!is_one) return false;
    if (etcd->cluster == 0 && (!is_any_asked(etcd) || now_ms >= etcd->begun_ms + etcd->session_ms / PROBES_A_SESSION))
        etcd->cluster = seen;
    return etcd->cluster != 0;
}

static void watch_end(struct etcd *etcd, uint64_t again_ms) {
    exchange_drop(&etcd->gateway, &etcd->watch);
    etcd->is_watch_up = etcd->is_watch_over = false;
    etcd->watch_ms = again_ms;
}

static void choose(struct etcd *etcd, uint64_t now_ms) {
    struct endpoint *serving = find_serving(etcd);
    if (!is_cluster_one(etcd, now_ms)) {
        etcd->is_up = false;
        etcd->is_searching = true;
        return;
    }
    if (!etcd->is_searching || serving == NULL) return;
    if (etcd->current != serving) watch_end(etcd, 0);
    etcd->current = serving;
    etcd->heard_ms = now_ms;
    etcd->is_searching = false;
    etcd->is_up = true;
    etcd->probe_ms = now_ms + etcd->session_ms / PROBES_A_SESSION;
    etcd_flights_move(etcd);
}

static bool have_all_failed(const struct etcd *etcd) {
    for (size_t i = 0; i < etcd->endpoint_count; i++)
        if (etcd->endpoints[i].failed_ms < etcd->search_ms || etcd->endpoints[i].failed_ms == 0) return false;
    return true;
}

static void look_at_state(struct etcd *etcd, uint64_t now_ms) {
    choose(etcd, now_ms);
    bool is_silent = now_ms >= etcd->heard_ms + etcd->session_ms / 2;
    if (etcd->is_searching && is_silent) etcd->is_up = false;
    if (etcd->is_up && !etcd->is_told_up) {
        etcd->is_told_up = true;
        etcd->sessions++;
        say_up(etcd);
    }
    if (etcd->is_up || (etcd->is_told_up && !is_silent && !have_all_failed(etcd))) return;
    etcd->is_told_up = false;
    say_problems(etcd);
}

/* ---- the watch */

#define WATCH_AGAIN_MS 250

static struct etcd *etcd_of_watch(struct exchange *exchange) {
    return (struct etcd *)((char *)exchange - offsetof(struct etcd, watch));
}

/* Handles a line of the watch. "created" also counts as a change, because changes before it were not reported. */
static void watch_line(struct exchange *exchange) {
    struct etcd *etcd = etcd_of_watch(exchange);
    if (exchange->size == 0) return;
    if (etcd_is_watch_over(exchange->answer, exchange->size))
        etcd->is_watch_over = true;
    else
        etcd->is_watch_up = etcd->is_changed = true;
}

/* Handles the end of the watch. A line that is too long also ends the watch: etcd never sends one, and the next watch
 * reports the change. */
static void watch_over(struct exchange *exchange, enum exchange_end end) {
    struct etcd *etcd = etcd_of_watch(exchange);
    (void)end;
    etcd->is_watch_up = false;
    etcd->watch_ms = coordinator_now_ms() + WATCH_AGAIN_MS;
    etcd_doubt(etcd);
}

static void watch_again(struct etcd *etcd, uint64_t now_ms) {
    if (etcd->is_watch_over) watch_end(etcd, now_ms + WATCH_AGAIN_MS);
    if (etcd->watch.easy != NULL || now_ms < etcd->watch_ms) return;
    struct request request = {.host = etcd->current->host,
                              .path = "watch",
                              .body = etcd_ask_watch(etcd->prefix),
                              .token = etcd->token};
    etcd->watch_ms = now_ms + WATCH_AGAIN_MS;
    /* If exchange_begin fails, a later turn tries again. */
    (void)exchange_begin(&etcd->gateway, &etcd->watch, &request);
}

/* ---- the turn */

static void etcd_turn(void *state) {
    struct etcd *etcd = state;
    gateway_turn(&etcd->gateway);
    uint64_t now_ms = coordinator_now_ms();
    if (etcd->begun_ms == 0) etcd->begun_ms = now_ms;
    look_at_state(etcd, now_ms);
    if (now_ms >= etcd->probe_ms) probe_round(etcd, now_ms);
    if (etcd->is_up) watch_again(etcd, now_ms);
    if (etcd->is_up) etcd_lease_turn(etcd, now_ms);
    if (etcd->is_changed) {
        etcd->is_changed = false;
        coordinator_changed(etcd->coordinator, NULL);
    }
    etcd_flights_send(etcd);
}

static void etcd_wait(void *state, int wake, int wait_ms) {
    struct etcd *etcd = state;
    uint64_t now_ms = coordinator_now_ms(), until_ms = now_ms + (uint64_t)wait_ms,
             again_ms = etcd_flights_again_ms(etcd);
    if (etcd->probe_ms < until_ms) until_ms = etcd->probe_ms;
    if (etcd->is_up && again_ms < until_ms) until_ms = again_ms;
    if (etcd->is_up && etcd->watch.easy == NULL && etcd->watch_ms < until_ms) until_ms = etcd->watch_ms;
    gateway_wait(&etcd->gateway, wake, until_ms > now_ms ? (int)(until_ms - now_ms) : 0);
}

static void etcd_start(void *state, struct coordinator_call *call) {
    struct etcd *etcd = state; /* this function only makes the request; the next turn sends it */
    if (etcd_flight_make(etcd, call) != 0)
        coordinator_fail(etcd->coordinator, call, PAIR_UNKNOWN, "coordinator: no memory");
}

static void etcd_abandon(void *state, struct coordinator_call *call) {
    (void)state;
    etcd_flight_free(call->flight);
}

static void etcd_watch(void *state, const char *name) {
    struct etcd *etcd = state; /* no request is needed, because one watch covers all keys */
    (void)name;
    /* Makes the watch's owner read the entry once, because the watch reports later changes only. */
    if (etcd->is_watch_up) etcd->is_changed = true;
}

/* ---- opening and closing */

static const struct place_kind kinds[] = {
    {.scheme = "etcd://", .server = "etcd", .port = 2379, .hosts_max = ETCD_HOSTS_MAX},
    {.scheme = "etcds://", .server = "etcd", .port = 2379, .hosts_max = ETCD_HOSTS_MAX},
};

static int check(bool is_tls, const char *place, char message[COORDINATOR_MESSAGE_SIZE]) {
    char hosts[COORDINATOR_URL_SIZE_MAX + 1];
    const char *path;
    return place_take(&kinds[is_tls], place, hosts, &path, message);
}

static int etcd_check(const char *place, char message[COORDINATOR_MESSAGE_SIZE]) {
    return check(false, place, message);
}

static int etcds_check(const char *place, char message[COORDINATOR_MESSAGE_SIZE]) {
    return check(true, place, message);
}

static void etcd_close(void *state) {
    struct etcd *etcd = state;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): etcd_flight_free removes it from the list
    while (etcd->flights != NULL) etcd_flight_free(etcd->flights);
    for (size_t i = 0; i < etcd->endpoint_count; i++) exchange_drop(&etcd->gateway, &etcd->endpoints[i].probe);
    exchange_drop(&etcd->gateway, &etcd->watch);
    exchange_drop(&etcd->gateway, &etcd->lease.exchange);
    gateway_close(&etcd->gateway);
    drop_token(etcd);
    if (etcd->credentials != NULL) sodium_memzero(etcd->credentials, strlen(etcd->credentials));
    free(etcd->credentials);
    free(etcd->gateway.ca);
    free(etcd->gateway.certificate);
    free(etcd->gateway.key);
    free(etcd);
}

static bool copy(const char *text, char **out) {
    *out = text == NULL ? NULL : strdup(text);
    return text == NULL || *out != NULL;
}

static int take_options(struct etcd *etcd, const struct coordinator_options *options,
                        char message[COORDINATOR_MESSAGE_SIZE]) {
    bool is_copied = copy(options->credentials, &etcd->credentials) && copy(options->ca, &etcd->gateway.ca) &&
                     copy(options->certificate, &etcd->gateway.certificate) && copy(options->key, &etcd->gateway.key);
    const char *wrong = is_copied ? NULL : "no memory";
    etcd->session_ms = options->session_ms;
    etcd->presence_ms = options->presence_ms;
    etcd->gateway.connect_ms = options->session_ms / 2;
    if (is_copied && etcd->credentials != NULL) {
        size_t size = (size_t)user_size(etcd);
        char *body = etcd_ask_token(etcd->credentials, size, etcd->credentials + size + 1);
        if (body == NULL)
            wrong = "user and password must be UTF-8 for etcd";
        else
            sodium_memzero(body, strlen(body));
        free(body);
    }
    if (wrong == NULL) return gateway_open(&etcd->gateway, message);
    snprintf(message, COORDINATOR_MESSAGE_SIZE, "coordinator: %s", wrong);
    return 1;
}

static void take_hosts(struct etcd *etcd) {
    for (const char *at = etcd->hosts; *at != '\0';) {
        size_t size = strcspn(at, ",");
        struct endpoint *endpoint = &etcd->endpoints[etcd->endpoint_count++];
        endpoint->etcd = etcd;
        endpoint->probe.over = probe_over;
        memcpy(endpoint->host, at, size); /* calloc has already set the terminating NUL */
        at += size + (at[size] == ',');
    }
}

static int open_any(bool is_tls, struct coordinator *coordinator, const char *place,
                    const struct coordinator_options *options, void **out, char message[COORDINATOR_MESSAGE_SIZE]) {
    const char *path;
    struct etcd *etcd = calloc(1, sizeof *etcd);
    if (etcd == NULL) {
        snprintf(message, COORDINATOR_MESSAGE_SIZE, "coordinator: no memory");
        return 1;
    }
    etcd->coordinator = coordinator;
    etcd->gateway.is_tls = is_tls;
    etcd->is_searching = true;
    etcd->watch.over = watch_over;
    etcd->watch.line = watch_line;
    int failed = place_take(&kinds[is_tls], place, etcd->hosts, &path, message);
    if (failed == 0) failed = take_options(etcd, options, message);
    if (failed != 0) {
        etcd_close(etcd);
        return failed;
    }
    snprintf(etcd->prefix, sizeof etcd->prefix, "%s/", path);
    take_hosts(etcd);
    *out = etcd;
    return 0;
}

static int etcd_open(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                     void **out, char message[COORDINATOR_MESSAGE_SIZE]) {
    return open_any(false, coordinator, place, options, out, message);
}

static int etcds_open(struct coordinator *coordinator, const char *place, const struct coordinator_options *options,
                      void **out, char message[COORDINATOR_MESSAGE_SIZE]) {
    return open_any(true, coordinator, place, options, out, message);
}

#define ETCD_FUNCTIONS                                                                                                 \
    .warning = "", .close = etcd_close, .wait = etcd_wait, .start = etcd_start, .abandon = etcd_abandon,               \
    .declare = etcd_declare, .turn = etcd_turn, .watch = etcd_watch

const struct backend etcd_backend = {.scheme = "etcd://", .check = etcd_check, .open = etcd_open, ETCD_FUNCTIONS};
const struct backend etcds_backend = {
    .scheme = "etcds://", .has_certificates = true, .check = etcds_check, .open = etcds_open, ETCD_FUNCTIONS};
