/* registrar.c: see registrar.h. */
#include "registrar.h"

#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "world.h"

struct coordinator { /* the connection of one node to the coordinator, for one life of the node */
    struct world *world;
    uint32_t node;
    uint64_t seen; /* newest version of the record that the node has seen; no later reply may have an older one */
    struct coordinator_watch *watches;
    uint32_t call_ms;
    uint32_t presence_ms;
    uint64_t declare_ns; /* time until which the node does not declare its presence */
    char declared[COORDINATOR_PRESENCE_SIZE_MAX + 1];
    uint64_t stood_ns; /* time from which on the node knows that the registrar has its declaration */
    char stood[COORDINATOR_PRESENCE_SIZE_MAX + 1];
};

struct flight {
    struct coordinator *coordinator;
    struct coordinator_call *call;
    bool swaps;
    bool is_presence;
    uint64_t version; /* version that the call expects; after the call, the version that the call returns */
    size_t size;
    char *value;
    enum pair_outcome outcome;
    bool is_over;
    uint64_t connection;
};

static struct world *world_of_all; /* a global variable, because record_client_open takes only a URL */

void registrar_begin(struct world *world) {
    world_of_all = world;
    world->registrar = world_alloc(world, sizeof *world->registrar);
}

void registrar_forget(struct world *world, uint32_t node) {
    if (world->registrar) world->registrar->open[node] = NULL;
}

static bool is_there(const struct coordinator *coordinator) {
    return coordinator->world->registrar->open[coordinator->node] == coordinator;
}

/* ---- requests and replies in flight */

static bool happens(struct world *world, uint32_t permille) {
    return permille && random_below(&world->random, 1000) < permille;
}

static void travel(struct flight *flight, uint32_t place, happen *arrives) {
    struct world *world = flight->coordinator->world;
    const struct registrar *registrar = world->registrar;
    if (registrar->cut[flight->coordinator->node] || happens(world, registrar->lost_permille)) return;
    uint64_t ns = world_span_ns(world, &world->options.net);
    if (happens(world, registrar->late_permille))
        ns += random_below(&world->random, registrar->late_ms + 1) * NS_PER_MS;
    world_after_at(world, place, ns, arrives, flight, 0);
}

static void end(struct flight *flight) {
    struct coordinator *coordinator = flight->coordinator;
    if (flight->is_over || !is_there(coordinator)) return;
    flight->is_over = true;
    struct coordinator_call *call = flight->call;
    bool is_old = flight->outcome == PAIR_DONE && !flight->is_presence && flight->version < coordinator->seen;
    call->outcome = is_old ? PAIR_UNKNOWN : flight->outcome;
    call->version = flight->version;
    call->size = flight->swaps ? 0 : flight->size;
    if (!flight->swaps) memcpy(call->value, flight->value, flight->size + 1);
    if (call->outcome == PAIR_DONE && !flight->is_presence) coordinator->seen = flight->version;
    coordinator->world->registrar->unknown += call->outcome == PAIR_UNKNOWN;
    call->done(call);
}

static void reply_arrives(struct world *world, void *argument, uint64_t number) {
    end(argument);
}

static void time_is_over(struct world *world, void *argument, uint64_t number) {
    struct flight *flight = argument;
    if (flight->is_over) return;
    struct flight *lost =
        world_alloc(world, sizeof *lost); /* only the reply is lost: this copy of the request may still arrive */
    *lost = *flight;
    flight->is_over = true;
    lost->outcome = PAIR_UNKNOWN;
    lost->size = 0;
    lost->value = world_alloc(world, 1);
    end(lost);
}

/* ---- the value */

enum news { NEWS_RECORD = 1, NEWS_PRESENCE = 2, NEWS_BOTH = 3 };

static void watch_fires(struct world *world, void *argument, uint64_t number) {
    struct coordinator *coordinator = argument;
    for (struct coordinator_watch *watch = coordinator->watches; watch && is_there(coordinator); watch = watch->next) {
        bool is_record = strcmp(watch->name, RECORD_ENTRY) == 0;
        if (number & (is_record ? NEWS_RECORD : NEWS_PRESENCE)) watch->changed(watch);
    }
}

static void tell_watcher(struct world *world, uint32_t node, enum news news) {
    const struct registrar *registrar = world->registrar;
    bool is_lost = !registrar->open[node] || registrar->cut[node] || happens(world, registrar->lost_permille);
    if (is_lost) return;
    world_after_at(world, node, world_span_ns(world, &world->options.net), watch_fires, registrar->open[node], news);
}

static void tell_watchers(struct world *world) {
    for (uint32_t i = 0; i < HOSTS_MAX; i++) tell_watcher(world, i, NEWS_RECORD);
}

/* Ends losses and delays. Messages that are in flight may still be late; a lost one is noticed only after the next
 * message. */
void registrar_calm(struct world *world) {
    struct registrar *registrar = world->registrar;
    bool was_calm = registrar->lost_permille == 0 && registrar->late_permille == 0;
    uint64_t late_ns = registrar->late_permille != 0 ? registrar->late_ms * NS_PER_MS : 0;
    registrar->lost_permille = registrar->late_permille = 0;
    for (uint32_t i = 0; i < HOSTS_MAX && !was_calm; i++) registrar->reached_since_ns[i] = world->now_ns + late_ns;
}

/* Ends all cuts. After a reconnection, a client reads all entries that it watches again. */
void registrar_heal(struct world *world) {
    struct registrar *registrar = world->registrar;
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        if (!registrar->cut[i]) continue;
        registrar->cut[i] = false;
        registrar->reached_since_ns[i] = world->now_ns;
        tell_watcher(world, i, NEWS_BOTH);
    }
}

static void trace_entry(struct world *world, const struct registrar_entry *entry) {
    const struct pair_record *pair = &entry->record.pair;
    TRACE(world, "record", "epoch %u, node %u leads, in sync%s%s", pair->epoch, pair->leader,
          pair->in_sync & 1 ? " 0" : "", pair->in_sync & 2 ? " 1" : "");
}

static void swap(struct world *world, struct flight *flight) {
    struct registrar *registrar = world->registrar;
    struct registrar_entry *now = &registrar->now;
    char message[COORDINATOR_MESSAGE_SIZE];
    flight->outcome = flight->version == now->version ? PAIR_DONE : PAIR_REFUSED;
    if (flight->outcome != PAIR_DONE) return;
    MUST(!registrar->is_doubted); /* F-31b: both nodes have seen a later value, so no node may change the value that was
                                     set back */
    struct registrar_entry before = *now;
    memcpy(now->value, flight->value, flight->size);
    now->value[flight->size] = 0;
    now->size = flight->size;
    MUST(record_read(now->value, now->size, &now->record, message) == 0);
    MUST(now->record.pair.epoch >= before.record.pair.epoch);
    if (now->record.pair.epoch > before.record.pair.epoch) registrar->past = before;
    flight->version = ++now->version;
    registrar->swaps++;
    trace_entry(world, now);
    tell_watchers(world);
}

/* ---- earlier values (F-31b) */

const struct registrar_entry *registrar_newest(const struct registrar *registrar) {
    return registrar->is_doubted ? &registrar->newest : &registrar->now;
}

static void become_another(struct world *world, const struct registrar_entry *entry) {
    struct registrar *registrar = world->registrar;
    registrar->newest = registrar->now;
    registrar->now = *entry;
    registrar->is_doubted = true;
    tell_watchers(world);
}

/* Ends calls in flight without an answer. Each delays the next call of its node until its timeout (history 125004857).
 */
static void break_connections(struct world *world) {
    struct registrar *registrar = world->registrar;
    registrar->connections++;
    for (uint32_t i = 0; i < HOSTS_MAX; i++) registrar->reached_since_ns[i] = world->now_ns;
}

void registrar_lose(struct world *world) {
    break_connections(world);
    TRACE(world, "record", "is lost");
    become_another(world, &(struct registrar_entry){0});
}

void registrar_put_back(struct world *world, bool by_server) {
    struct registrar *registrar = world->registrar;
    struct registrar_entry entry = registrar->past;
    MUST(entry.version != 0);
    if (by_server)
        break_connections(world);
    else
        entry.version = registrar->now.version + 1;
    TRACE(world, "record", "is put back to epoch %u%s", entry.record.pair.epoch, by_server ? ", by the server" : "");
    become_another(world, &entry);
}

void registrar_write_again(struct world *world) {
    struct registrar *registrar = world->registrar;
    uint64_t before = registrar->now.version;
    if (!registrar->is_doubted) return;
    registrar->now = registrar->newest;
    registrar->now.version = (before > registrar->newest.version ? before : registrar->newest.version) + 1;
    registrar->is_doubted = false;
    TRACE(world, "record", "is written again");
    trace_entry(world, &registrar->now);
    tell_watchers(world);
}

/* Answers a follower's question about the presence of the other node. Only followers ask this question. */
static void find_presence(struct world *world, struct flight *flight) {
    const struct registrar *registrar = world->registrar;
    uint32_t other = 1 - flight->coordinator->node;
    flight->outcome = PAIR_DONE;
    flight->version = registrar->present_until_ns[other] > world->now_ns;
    flight->size = strlen(registrar->present[other]);
    flight->value = world_copy(world, registrar->present[other], sizeof registrar->present[other]);
}

static void request_arrives(struct world *world, void *argument, uint64_t number) {
    struct flight *flight = argument;
    const struct registrar *registrar = world->registrar;
    if (registrar->cut[flight->coordinator->node] || flight->connection != registrar->connections) return;
    if (flight->swaps) {
        swap(world, flight);
    } else if (flight->is_presence) {
        find_presence(world, flight);
    } else {
        flight->outcome = PAIR_DONE;
        flight->version = registrar->now.version;
        flight->size = registrar->now.size;
        flight->value = world_copy(world, registrar->now.value, sizeof registrar->now.value);
    }
    travel(flight, flight->coordinator->node, reply_arrives);
}

static void send(struct coordinator *coordinator, struct coordinator_call *call, const struct flight *what) {
    struct world *world = coordinator->world;
    struct flight *flight = world_alloc(world, sizeof *flight);
    *flight = *what;
    flight->coordinator = coordinator;
    flight->call = call;
    flight->connection = world->registrar->connections;
    travel(flight, WORLD_OUTSIDE, request_arrives);
    world_after_at(world, coordinator->node, coordinator->call_ms * NS_PER_MS, time_is_over, flight, 0);
}

/* ---- coordinator.h */

int coordinator_open(const char *url, const struct coordinator_options *options, struct coordinator **out,
                     char message[COORDINATOR_MESSAGE_SIZE]) {
    struct world *world = world_of_all;
    struct coordinator *coordinator = world_alloc(world, sizeof *coordinator);
    *coordinator = (struct coordinator){.world = world,
                                        .node = (uint32_t)strtoul(url, NULL, 10),
                                        .call_ms = options->call_ms,
                                        .presence_ms = options->presence_ms};
    MUST(coordinator->node == world->place);
    world->registrar->open[coordinator->node] = coordinator;
    *out = coordinator;
    message[0] = 0;
    return 0;
}

void coordinator_close(struct coordinator *coordinator) {
    registrar_forget(coordinator->world, coordinator->node);
}

void coordinator_read(struct coordinator *coordinator, const char *name, struct coordinator_call *call) {
    MUST(strcmp(name, RECORD_ENTRY) == 0);
    send(coordinator, call, &(struct flight){0});
}

void coordinator_ask_presence(struct coordinator *coordinator, const char *name, struct coordinator_call *call) {
    send(coordinator, call, &(struct flight){.is_presence = true});
}

struct declaration {
    struct coordinator *coordinator;
    uint64_t until_ns;
    char text[COORDINATOR_PRESENCE_SIZE_MAX + 1];
};

static void declaration_stands(struct world *world, void *argument, uint64_t number) {
    const struct declaration *declaration = argument;
    struct coordinator *coordinator = declaration->coordinator;
    if (!is_there(coordinator) || strcmp(coordinator->stood, declaration->text) == 0) return;
    memcpy(coordinator->stood, declaration->text, sizeof declaration->text);
    coordinator->stood_ns = world->now_ns;
}

/* Returns the size of the presence without the leader's report about its follower ("heard …"). Two presences are equal
 * if these parts are equal. */
static size_t told_size(const char *presence) {
    const char *heard = strstr(presence, " heard ");
    return heard != NULL ? (size_t)(heard - presence) : strlen(presence);
}

static bool is_same_presence(const char *one, const char *other) {
    return told_size(one) == told_size(other) && strncmp(one, other, told_size(one)) == 0;
}

static void declaration_arrives(struct world *world, void *argument, uint64_t number) {
    struct registrar *registrar = world->registrar;
    struct declaration *declaration = argument;
    uint32_t node = declaration->coordinator->node;
    if (registrar->cut[node]) return;
    bool is_there = registrar->present_until_ns[node] > world->now_ns;
    bool is_news = !is_there || strcmp(registrar->present[node], declaration->text) != 0;
    bool goes_on = is_there && is_same_presence(registrar->present[node], declaration->text);
    if (!goes_on) registrar->present_since_ns[node] = world->now_ns;
    registrar->present_until_ns[node] = declaration->until_ns;
    memcpy(registrar->present[node], declaration->text, sizeof declaration->text);
    if (is_news) tell_watcher(world, 1 - node, NEWS_PRESENCE);
    if (happens(world, registrar->lost_permille)) return;
    world_after_at(world, node, world_span_ns(world, &world->options.net), declaration_stands, declaration, 0);
}

/* Declares the presence of a node. It lasts for presence_ms after its arrival; the node declares it several times
 * during that time. */
void coordinator_declare(struct coordinator *coordinator, const char *name, const char *text) {
    struct world *world = coordinator->world;
    const struct registrar *registrar = world->registrar;
    if (world->now_ns < coordinator->declare_ns && strcmp(coordinator->declared, text) == 0) return;
    snprintf(coordinator->declared, sizeof coordinator->declared, "%s", text);
    coordinator->declare_ns = world->now_ns + coordinator->presence_ms * NS_PER_MS / 4;
    if (registrar->cut[coordinator->node] || happens(world, registrar->lost_permille)) return;
    struct declaration *declaration = world_alloc(world, sizeof *declaration);
    uint64_t ns = world_span_ns(world, &world->options.net);
    declaration->coordinator = coordinator;
    declaration->until_ns = world->now_ns + ns + coordinator->presence_ms * NS_PER_MS;
    memcpy(declaration->text, coordinator->declared, sizeof declaration->text);
    world_after_at(world, WORLD_OUTSIDE, ns, declaration_arrives, declaration, 0);
}

bool coordinator_stands(struct coordinator *coordinator, const char *text, uint64_t *out_ms) {
    if (strcmp(coordinator->stood, text) != 0) return false;
    *out_ms = (coordinator->world->now_ns - coordinator->stood_ns) / NS_PER_MS;
    return true;
}

void coordinator_compare_and_set(struct coordinator *coordinator, const char *name, uint64_t version, const void *value,
                                 size_t size, struct coordinator_call *call) {
    struct world *world = coordinator->world;
    MUST(strcmp(name, RECORD_ENTRY) == 0 && size <= COORDINATOR_VALUE_SIZE_MAX);
    struct flight flight = {.swaps = true, .version = version, .size = size, .value = world_copy(world, value, size)};
    send(coordinator, call, &flight);
}

void coordinator_watch(struct coordinator *coordinator, struct coordinator_watch *watch) {
    enum news news = strcmp(watch->name, RECORD_ENTRY) == 0 ? NEWS_RECORD : NEWS_PRESENCE;
    watch->next = coordinator->watches;
    coordinator->watches = watch;
    world_after_at(coordinator->world, coordinator->node, NS_PER_MS, watch_fires, coordinator, news);
}
