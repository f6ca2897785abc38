/* amqp_store.c: the definitions of exchanges, queues and bindings. Each one is stored as a definition of the broker
 * (the operation Define) in the space AMQP_SPACE; its name there is made by amqp_key_of_…. So definitions are in the
 * log, survive a crash, and are on the follower. The topology in memory changes after the commit.
 *
 * One job at a time changes definitions: it checks, commits, and changes the topology. No other change happens in
 * between. */
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"

#define PURGE_LOOK_MS 5u

struct change {
    enum { CHANGE_PUT, CHANGE_DELETE, CHANGE_PURGE, CHANGE_HOLDING, CHANGE_NOT_HOLDING } kind;
    char key[AMQP_DEFINITION_KEY_SIZE];
    struct amqp_out definition;
};

struct gateway_caller own_caller(struct gateway *gateway) {
    return (struct gateway_caller){.principal = gateway_own(gateway), .peer = "amqp", .client = "AMQP door"};
}

/* ---- turns */

void store_enter(struct store *store, struct job *job, void (*run)(void *argument), void *argument) {
    job->run = run;
    job->argument = argument;
    if (store->running != NULL) {
        job->state = JOB_WAITS;
        TAILQ_INSERT_TAIL(&store->jobs, job, next);
        return;
    }
    store->running = job;
    job->state = JOB_RUNS;
    run(argument);
}

/* Ends the job's turn, and runs the waiting jobs one after the other. A job may call this function while it runs, so
 * the function avoids recursion. */
void store_leave(struct store *store, struct job *job) {
    struct job *next;
    job->state = JOB_IDLE;
    store->running = NULL;
    if (store->is_dispatching) return;
    store->is_dispatching = true;
    while (store->running == NULL && (next = TAILQ_FIRST(&store->jobs)) != NULL) {
        TAILQ_REMOVE(&store->jobs, next, next);
        store->running = next;
        next->state = JOB_RUNS;
        next->run(next->argument);
    }
    store->is_dispatching = false;
}

bool store_cancel(struct store *store, struct job *job) {
    if (job->state == JOB_RUNS) return false;
    if (job->state == JOB_WAITS) TAILQ_REMOVE(&store->jobs, job, next);
    job->state = JOB_IDLE;
    return true;
}

/* ---- changes */

static struct change *add_change(struct store *store, int kind, const char *key) {
    if (store->change_count == store->change_capacity) {
        size_t capacity = store->change_capacity == 0 ? 16 : store->change_capacity * 2;
        struct change *changes = realloc(store->changes, capacity * sizeof(*changes));
        if (changes == NULL) {
            store->failed = true;
            return NULL;
        }
        store->changes = changes;
        store->change_capacity = capacity;
    }
    struct change *change = &store->changes[store->change_count++];
    *change = (struct change){.kind = kind};
    strncpy(change->key, key, sizeof(change->key) - 1);
    return change;
}

void store_put(struct store *store, const char *key, struct amqp_out *definition) {
    struct change *change = definition->failed ? NULL : add_change(store, CHANGE_PUT, key);
    store->failed |= change == NULL;
    if (change != NULL)
        change->definition = *definition;
    else
        amqp_out_free(definition);
}

void store_delete_doomed(struct store *store) {
    char key[AMQP_DEFINITION_KEY_SIZE];
    amqp_doomed_order(&store->topology);
    for (size_t i = 0; i < store->topology.doomed_count; i++) {
        amqp_key_of_doomed(&store->topology, i, key);
        (void)add_change(store, CHANGE_DELETE, key);
    }
}

void store_purge(struct store *store, const char *queue) {
    (void)add_change(store, CHANGE_PURGE, queue);
}

void store_holding(struct store *store, const char *queue, bool is_holding) {
    (void)add_change(store, is_holding ? CHANGE_HOLDING : CHANGE_NOT_HOLDING, queue);
}

static void drop_changes(struct store *store) {
    for (size_t i = 0; i < store->change_count; i++) amqp_out_free(&store->changes[i].definition);
    store->change_count = store->change_done = store->change_sent = 0;
    store->failed = false;
}

/* Ends the store's current set of changes, and reports the result to its callback `stored`. */
static void tell(struct store *store, Tarry__Code code, const char *sentence, uint64_t purged) {
    stored *done = store->stored;
    struct stored_result result = {.code = code, .sentence = sentence, .purged = purged};
    while (result.deleted < store->change_done && store->changes[result.deleted].kind == CHANGE_DELETE)
        result.deleted++;
    drop_changes(store);
    store->stored = NULL;
    done(store->argument, &result);
}

static void ask_purge(struct store *store);

static void on_purge_timer(void *argument) {
    ask_purge(argument);
}

/* A purge is a job of the broker. The messages are gone when the job has ended. */
static void on_purging(void *argument, const Tarry__Reply *reply) {
    struct store *store = argument;
    bool is_stats = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_STATS;
    const Tarry__JobView *job = is_stats ? reply->stats->job : NULL;
    bool runs = (job != NULL && job->running) || reply == NULL || reply->code == TARRY__CODE__BUSY;
    if (runs && gateway_timer(store->gateway, PURGE_LOOK_MS, on_purge_timer, store) != 0) return;
    tell(store, TARRY__CODE__OK, "", job != NULL ? job->done : 0);
}

static void ask_purge(struct store *store) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Stats stats = TARRY__STATS__INIT;
    stats.queue = store->purging;
    stats.job = store->purge_job;
    request.body_case = TARRY__REQUEST__BODY_STATS;
    request.stats = &stats;
    const struct gateway_caller caller = own_caller(store->gateway);
    uint64_t handle = gateway_ask(store->gateway, &caller, &request, on_purging, store);
    gateway_disown(store->gateway, caller.principal);
    if (handle == 0) on_purging(store, NULL);
}

static void commit_part(struct store *store);

/* Removes one purge from the changes that are not committed. Returns false if they contain no purge. */
static bool drop_purge(struct store *store) {
    for (size_t i = store->change_done; i < store->change_count; i++) {
        if (store->changes[i].kind != CHANGE_PURGE) continue;
        store->changes[i] = store->changes[--store->change_count]; /* a purge has no definition to free */
        return true;
    }
    return false;
}

static void on_stored(void *argument, const Tarry__Reply *reply) {
    struct store *store = argument;
    Tarry__Code code = reply != NULL ? reply->code : TARRY__CODE__FAILED;
    const char *sentence = reply != NULL ? reply->message : "";
    bool is_commit = code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_COMMIT;
    for (size_t i = 0; is_commit && i < reply->commit->n_results; i++) {
        const Tarry__OpResult *result = reply->commit->results[i];
        const struct change *change = &store->changes[store->change_done + i];
        if (change->kind == CHANGE_PURGE) {
            store->purge_job = result->job;
            memcpy(store->purging, change->key, sizeof(change->key));
        }
        if (result->code == TARRY__CODE__OK || result->code == TARRY__CODE__ABORTED) continue;
        code = result->code;
        sentence = result->message;
    }
    if (code == TARRY__CODE__OK) store->change_done += store->change_sent;
    bool is_again = code == TARRY__CODE__NO_SUCH_QUEUE && drop_purge(store);
    if (is_again || (code == TARRY__CODE__OK && store->change_done < store->change_count))
        commit_part(store);
    else if (code == TARRY__CODE__OK && store->purge_job != 0)
        ask_purge(store);
    else
        tell(store, code, sentence, 0);
}

/* An operation with all objects that it points to. */
struct building {
    Tarry__Op op;
    union {
        Tarry__Define define;
        Tarry__QueuePurge purge;
        Tarry__QueueSet set;
    } body;
    Tarry__Policy policy;
};

static char *holding_fields[] = {"lease_before_due"};

static void build(struct building *to, const struct change *change) {
    tarry__op__init(&to->op);
    if (change->kind == CHANGE_PUT || change->kind == CHANGE_DELETE) {
        tarry__define__init(&to->body.define);
        to->body.define.space = (char *)AMQP_SPACE;
        to->body.define.name = (ProtobufCBinaryData){.data = (uint8_t *)change->key, .len = strlen(change->key)};
        to->body.define.value = (ProtobufCBinaryData){.data = change->definition.bytes, .len = change->definition.size};
        to->body.define.deleted = change->kind == CHANGE_DELETE;
        to->op.op_case = TARRY__OP__OP_DEFINE;
        to->op.define = &to->body.define;
    } else if (change->kind == CHANGE_PURGE) {
        tarry__queue_purge__init(&to->body.purge);
        to->body.purge.queue = (char *)change->key;
        to->op.op_case = TARRY__OP__OP_QUEUE_PURGE;
        to->op.queue_purge = &to->body.purge;
    } else {
        tarry__policy__init(&to->policy);
        to->policy.lease_before_due = change->kind == CHANGE_HOLDING;
        tarry__queue_set__init(&to->body.set);
        to->body.set.queue = (char *)change->key;
        to->body.set.policy = &to->policy;
        to->body.set.fields = holding_fields;
        to->body.set.n_fields = sizeof(holding_fields) / sizeof(holding_fields[0]);
        to->op.op_case = TARRY__OP__OP_QUEUE_SET;
        to->op.queue_set = &to->body.set;
    }
}

/* Commits the next changes. Only deletions can be more than one commit may contain. In that case all commits except the
 * first have the maximum size. So the last commit is full, and deletes the queue or exchange itself with its
 * messages. */
static void commit_part(struct store *store) {
    const size_t left = store->change_count - store->change_done;
    size_t count = left % DEFINES_PER_COMMIT_MAX;
    if (count == 0 && left > 0) count = DEFINES_PER_COMMIT_MAX;
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    struct building *buildings = calloc(count + 1, sizeof(*buildings));
    Tarry__Op **pointers = calloc(count + 1, sizeof(Tarry__Op *));
    bool has_memory = buildings != NULL && pointers != NULL && !store->failed;
    for (size_t i = 0; has_memory && i < count; i++) {
        build(&buildings[i], &store->changes[store->change_done + i]);
        pointers[i] = &buildings[i].op;
    }
    commit.ops = pointers;
    commit.n_ops = count;
    commit.atomic = true;
    store->change_sent = count;
    store->purge_job = 0;
    const struct gateway_caller caller = own_caller(store->gateway);
    bool is_sent =
        has_memory && count > 0 && gateway_commit(store->gateway, &caller, &commit, NULL, on_stored, store) != 0;
    gateway_disown(store->gateway, caller.principal);
    free(buildings);
    free(pointers);
    if (!is_sent && has_memory && count == 0)
        tell(store, TARRY__CODE__OK, "", 0);
    else if (!is_sent)
        tell(store, TARRY__CODE__BUSY, "the broker is out of memory", 0);
}

void store_commit(struct store *store, stored *done, void *argument) {
    store->stored = done;
    store->argument = argument;
    commit_part(store);
}

/* ---- reading the definitions */

struct loading {
    struct store *store;
    uint64_t asked;
    uint8_t after[DEFINITION_NAME_SIZE_MAX];
    size_t after_size;
    struct amqp_out *later; /* bindings whose source or destination is not known yet */
    size_t later_count, later_capacity;
};

static void load_free(struct loading *loading) {
    if (loading == NULL) return;
    if (loading->asked != 0) gateway_forget(loading->store->gateway, loading->asked);
    for (size_t i = 0; i < loading->later_count; i++) amqp_out_free(&loading->later[i]);
    free(loading->later);
    free(loading);
}

static void load_end(struct loading *loading, Tarry__Code code, const char *primary) {
    struct store *store = loading->store;
    for (size_t i = 0; code == TARRY__CODE__OK && i < loading->later_count; i++) {
        struct amqp_bytes payload = {loading->later[i].bytes, loading->later[i].size};
        if (amqp_define(&store->topology, payload) == AMQP_DEFINED_NO_MEMORY) code = TARRY__CODE__BUSY;
    }
    store->loading = NULL;
    load_free(loading);
    store->state = code == TARRY__CODE__OK ? STORE_LOADED : STORE_EMPTY;
    if (code != TARRY__CODE__OK) amqp_topology_deinit(&store->topology);
    store->loaded(store->loaded_argument, code, primary);
}

static bool keep_for_later(struct loading *loading, struct amqp_bytes payload) {
    if (loading->later_count == loading->later_capacity) {
        size_t capacity = loading->later_capacity == 0 ? 64 : loading->later_capacity * 2;
        struct amqp_out *later = realloc(loading->later, capacity * sizeof(*later));
        if (later == NULL) return false;
        loading->later = later;
        loading->later_capacity = capacity;
    }
    struct amqp_out *kept = &loading->later[loading->later_count++];
    *kept = (struct amqp_out){0};
    amqp_put(kept, payload.at, payload.size);
    return !kept->failed;
}

/* Defines the objects that a result page lists. Returns false if memory is exhausted. */
static bool take_page(struct loading *loading, const Tarry__DefinitionsReply *page) {
    for (size_t i = 0; i < page->n_definitions; i++) {
        const Tarry__Definition *definition = page->definitions[i];
        struct amqp_bytes payload = {definition->value.data, definition->value.len};
        enum amqp_defined defined = amqp_define(&loading->store->topology, payload);
        if (defined == AMQP_DEFINED_NO_MEMORY) return false;
        if (defined == AMQP_DEFINED_LATER && !keep_for_later(loading, payload)) return false;
        if (definition->name.len > sizeof(loading->after)) return false;
        loading->after_size = definition->name.len;
        memcpy(loading->after, definition->name.data, definition->name.len);
    }
    return true;
}

static void ask_page(struct loading *loading);

static void on_page(void *argument, const Tarry__Reply *reply) {
    struct loading *loading = argument;
    Tarry__Code code = reply != NULL ? reply->code : TARRY__CODE__BUSY;
    bool is_page = code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_DEFINITIONS;
    loading->asked = 0;
    if (is_page && reply->follower)
        load_end(loading, TARRY__CODE__NOT_PRIMARY, reply->primary);
    else if (!is_page)
        load_end(loading, code != TARRY__CODE__OK ? code : TARRY__CODE__FAILED, reply != NULL ? reply->primary : "");
    else if (!take_page(loading, reply->definitions))
        load_end(loading, TARRY__CODE__BUSY, "");
    else if (reply->definitions->more)
        ask_page(loading);
    else
        load_end(loading, TARRY__CODE__OK, "");
}

static void on_no_memory(void *argument) {
    load_end(argument, TARRY__CODE__BUSY, "");
}

static void ask_page(struct loading *loading) {
    struct store *store = loading->store;
    Tarry__Request request = TARRY__REQUEST__INIT;
    Tarry__Definitions definitions = TARRY__DEFINITIONS__INIT;
    definitions.space = (char *)AMQP_SPACE;
    definitions.after = (ProtobufCBinaryData){.data = loading->after, .len = loading->after_size};
    request.body_case = TARRY__REQUEST__BODY_DEFINITIONS;
    request.definitions = &definitions;
    const struct gateway_caller caller = own_caller(store->gateway);
    loading->asked = gateway_ask(store->gateway, &caller, &request, on_page, loading);
    gateway_disown(store->gateway, caller.principal);
    /* A timer reports the failure, because no callback may run within a function of the store. */
    if (loading->asked == 0) (void)gateway_timer(store->gateway, 1, on_no_memory, loading);
}

void store_load(struct store *store) {
    struct loading *loading = calloc(1, sizeof(*loading));
    if (loading == NULL || !amqp_topology_init(&store->topology)) { /* the next tick tries to load again */
        free(loading);
        return;
    }
    store->state = STORE_LOADS;
    loading->store = store;
    store->loading = loading;
    ask_page(loading);
}

void store_forget(struct store *store) {
    if (store->state == STORE_LOADED) amqp_topology_deinit(&store->topology);
    if (store->state == STORE_LOADED) store->state = STORE_EMPTY;
}

void store_free(struct store *store) {
    if (store->loading != NULL) load_free(store->loading);
    drop_changes(store);
    free(store->changes);
    amqp_topology_deinit(&store->topology);
}
