/* etcd.c: etcd://host:port,host:port/path, and etcds:// with TLS. Chooses the member, and has the credentials.
 * etcd_flight.c sends the calls.
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
#include "etcd.h"

#include <assert.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

#define SEARCH_MS 250 /* interval between two rounds of probes while no member answers, in ms */
#define WATCH_AGAIN_MS 250
#define PROBES_A_SESSION 4
#define WORST_SIZE 200 /* maximum size in bytes of one host's problem if several are reported */

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static int user_size(const struct etcd *etcd) {
    return etcd->credentials == NULL ? 0 : (int)strcspn(etcd->credentials, ":");
}

void etcd_explain(const struct etcd *etcd, enum etcd_refusal refusal, const char *host, const char *text,
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

static void explain_cluster(uint64_t seen, uint64_t cluster, char out[COORDINATOR_MESSAGE_SIZE]) {
    snprintf(out, COORDINATOR_MESSAGE_SIZE,
             "it belongs to another cluster (id %" PRIu64 ") than the one that this node has used so far (id %" PRIu64
             "): all hosts of --coordinator must be members of one cluster. If the cluster was set up anew, stop both "
             "nodes, then start the node that led last first",
             cluster, seen);
}

bool etcd_is_ours(const struct etcd *etcd, uint64_t cluster, char out[COORDINATOR_MESSAGE_SIZE]) {
    if (cluster != etcd->cluster) explain_cluster(etcd->cluster, cluster, out);
    return cluster == etcd->cluster;
}

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

static void say_up(struct etcd *etcd) {
    char why[COORDINATOR_MESSAGE_SIZE] = "";
    if (etcd->has_no_room) etcd_explain(etcd, ETCD_NO_ROOM, etcd->current->host, "", why);
    coordinator_is(etcd->coordinator, COORDINATOR_CONNECTED, etcd->sessions, "%s", why);
}

void etcd_has_room(struct etcd *etcd, bool has_room) {
    etcd->has_no_room = !has_room;
    say_up(etcd);
}

/* ---- Probes ------------------------------------------------------------------------------------------------------ */

void etcd_doubt(struct etcd *etcd) {
    uint64_t now_ms = coordinator_now_ms();
    if (!etcd->is_searching) etcd->search_ms = now_ms;
    if (etcd->is_up) etcd->probe_ms = now_ms;
    etcd->is_searching = true;
    etcd->is_up = false;
}

static void drop_token(struct etcd *etcd) {
    if (etcd->token != NULL) sodium_memzero(etcd->token, strlen(etcd->token));
    free(etcd->token);
    etcd->token = NULL;
}

void etcd_forget_token(struct etcd *etcd, uint64_t number) {
    if (number != etcd->token_number) return; /* the token was already replaced by a newer one */
    drop_token(etcd);
    etcd_doubt(etcd);
}

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
    struct endpoint *endpoint = (struct endpoint *)exchange; /* safe, because `exchange` is the first member */
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
        etcd->is_searching =
            true; /* the last probe has no answer, so search another member; calls may still be answered */
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

/* ---- The watch --------------------------------------------------------------------------------------------------- */

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
    (void)exchange_begin(&etcd->gateway, &etcd->watch, &request); /* if this fails, a later turn tries again */
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
    struct etcd *etcd = state; /* only makes the flight; the next turn sends the call */
    if (etcd_flight_make(etcd, call) != 0)
        coordinator_fail(etcd->coordinator, call, PAIR_UNKNOWN, "coordinator: no memory");
}

static void etcd_abandon(void *state, struct coordinator_call *call) {
    (void)state;
    etcd_flight_free(call->flight);
}

static void etcd_watch(void *state, const char *name) {
    struct etcd *etcd = state; /* nothing to start, because the watch covers all keys */
    (void)name;
    if (etcd->is_watch_up) etcd->is_changed = true; /* make the caller read once; the watch reports later changes */
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
