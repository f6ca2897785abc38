/* commit.c: commits that the program builds. Each is one request and one frame in the broker's log. */
#include "client.h"

#include <stdlib.h>

struct tarry_commit {
    tarry_client *client;
    struct request *request; /* the request that is being built; NULL: none yet */
    bool atomic;
    int failed; /* the first failure while adding an operation; TARRY_OK: none */
    /* Reply to the last run. */
    struct tarry_result *results;
    size_t result_count;
    bool is_named; /* the next run or submission of the commit uses `name` (tarry_once.h) */
    struct tarry_commit_id name;
};

static void results_drop(tarry_commit *commit) {
    free(commit->results);
    commit->results = NULL;
    commit->result_count = 0;
}

int tarry_commit_new(tarry_client *client, bool atomic, tarry_commit **out_commit) {
    if (client == NULL || out_commit == NULL) return TARRY_E_ARGUMENT;
    int rv = may_call(client);
    if (rv != TARRY_OK) return rv;
    tarry_commit *commit = calloc(1, sizeof(*commit));
    if (commit == NULL) return TARRY_E_NOMEM;
    commit->client = client;
    commit->atomic = atomic;
    *out_commit = commit;
    return TARRY_OK;
}

void tarry_commit_clear(tarry_commit *commit) {
    if (commit == NULL) return;
    results_drop(commit);
    commit->failed = TARRY_OK;
    if (commit->request == NULL && !commit->is_named) return;
    if (process_is_other(commit->client)) {
        request_destroy(commit->request);
    } else {
        pthread_mutex_lock(&commit->client->lock);
        /* A commit that is freed will never be sent, so its sequence is free again. */
        if (commit->is_named) ledger_close(&commit->client->ledger, &commit->name);
        if (commit->request != NULL) request_free(commit->client, commit->request);
        pthread_mutex_unlock(&commit->client->lock);
    }
    commit->is_named = false;
    commit->request = NULL;
}

void tarry_commit_free(tarry_commit *commit) {
    tarry_commit_clear(commit);
    free(commit);
}

tarry_client *commit_client(const tarry_commit *commit) {
    return commit->client;
}

const struct tarry_commit_id *commit_name(const tarry_commit *commit) {
    return commit->is_named ? &commit->name : NULL;
}

void commit_set_name(tarry_commit *commit, const struct tarry_commit_id *id) {
    commit->is_named = true;
    commit->name = *id;
}

void commit_take_results(tarry_commit *commit, struct tarry_result *results, size_t count) {
    results_drop(commit);
    commit->results = results;
    commit->result_count = count;
}

size_t tarry_commit_count(const tarry_commit *commit) {
    return commit == NULL || commit->request == NULL ? 0 : commit->request->count;
}

static int add_begin(tarry_commit *commit) {
    int rv = may_call(commit->client);
    if (rv != TARRY_OK || commit->request != NULL) return rv;
    pthread_mutex_lock(&commit->client->lock);
    commit->request = request_new(commit->client, REQUEST_COMMIT);
    pthread_mutex_unlock(&commit->client->lock);
    if (commit->request == NULL) return TARRY_E_NOMEM;
    commit->request->atomic = commit->atomic;
    return TARRY_OK;
}

/* Ends the addition of an operation to the commit. `rv`: result of packing; `before`: size of the body before it. */
static int add_end(tarry_commit *commit, int rv, size_t before, struct op_note note) {
    struct request *request = commit->request;
    note.size = (uint32_t)(request->body.size - before);
    if (rv == TARRY_OK &&
        (request->count >= OPS_PER_COMMIT_MAX || request->body.size > REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX))
        rv = TARRY_TOO_LARGE;
    if (rv == TARRY_OK) rv = request_add_note(request, &note);
    if (rv != TARRY_OK) {
        request->body.size = before;
        if (commit->failed == TARRY_OK) commit->failed = rv;
    }
    return rv;
}

#define ADD(commit, note, pack)                                                                                        \
    do {                                                                                                               \
        if ((commit) == NULL) return TARRY_E_ARGUMENT;                                                                 \
        int rv = add_begin(commit);                                                                                    \
        if (rv != TARRY_OK) {                                                                                          \
            (commit)->failed = rv;                                                                                     \
            return rv;                                                                                                 \
        }                                                                                                              \
        size_t before = (commit)->request->body.size;                                                                  \
        return add_end((commit), (pack), before, (note));                                                              \
    } while (0)
#define BODY(commit) (&(commit)->request->body)

static bool is_default(const struct tarry_call *call) {
    return call->timeout_ms == 0 && call->at_least == 0 && call->staleness_ms == 0;
}

/* Copies the options of one operation of a commit. Their `call` must be 0, because the whole commit has one timeout. */
#define TAKE_OF_COMMIT(out, given)                                                                                     \
    (OPTIONS_CALL_TAKE(out, given) != TARRY_OK ? TARRY_E_VERSION                                                       \
     : is_default(&(out).call)                 ? TARRY_OK                                                              \
                                               : TARRY_E_ARGUMENT)

int tarry_commit_schedule(tarry_commit *commit, const struct tarry_schedule_options *given) {
    struct tarry_schedule_options options;
    int taken = TAKE_OF_COMMIT(options, given);
    ADD(commit, taken != TARRY_OK ? note_other(false) : note_schedules(&options),
        taken != TARRY_OK ? taken : pack_schedule(BODY(commit), &options));
}
int tarry_commit_cancel(tarry_commit *commit, const struct tarry_ref *ref, bool withdraw) {
    ADD(commit, note_changes(ref), pack_cancel(BODY(commit), ref, withdraw));
}
int tarry_commit_move(tarry_commit *commit, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms) {
    ADD(commit, note_changes(ref), pack_move(BODY(commit), ref, when, when_ms));
}
int tarry_commit_ack(tarry_commit *commit, uint64_t id, struct tarry_token token) {
    ADD(commit, note_settles(id, token), pack_ack(BODY(commit), id, token));
}
int tarry_commit_nack(tarry_commit *commit, uint64_t id, struct tarry_token token,
                      const struct tarry_nack_options *given) {
    struct tarry_nack_options options;
    int taken = TAKE_OF_COMMIT(options, given);
    ADD(commit, note_settles(id, token), taken != TARRY_OK ? taken : pack_nack(BODY(commit), id, token, &options));
}
int tarry_commit_extend(tarry_commit *commit, uint64_t id, struct tarry_token token, uint64_t lease_ms) {
    ADD(commit, note_extends(), pack_extend(BODY(commit), id, token, lease_ms));
}
int tarry_commit_release(tarry_commit *commit, uint64_t id, struct tarry_token token) {
    ADD(commit, note_settles(id, token), pack_release(BODY(commit), id, token));
}
int tarry_commit_dead(tarry_commit *commit, enum tarry_dead_what what, const struct tarry_ref *ref, bool all) {
    ADD(commit, note_of_ref(ref), pack_dead(BODY(commit), what, ref, all));
}
int tarry_commit_redact(tarry_commit *commit, const struct tarry_redact_options *given) {
    struct tarry_redact_options options;
    int taken = TAKE_OF_COMMIT(options, given);
    ADD(commit, note_other(false), taken != TARRY_OK ? taken : pack_redact(BODY(commit), &options));
}
int tarry_commit_queue_set(tarry_commit *commit, const char *queue, const struct tarry_policy *given, uint32_t fields) {
    struct tarry_policy policy;
    int taken = OPTIONS_TAKE(policy, given);
    ADD(commit, note_other(false),
        taken != TARRY_OK ? taken : pack_queue_set(BODY(commit), queue, given == NULL ? NULL : &policy, fields));
}
int tarry_commit_queue_pause(tarry_commit *commit, const char *queue, bool paused, uint64_t for_ms) {
    ADD(commit, note_other(false), pack_queue_pause(BODY(commit), queue, paused, for_ms));
}
int tarry_commit_queue_purge(tarry_commit *commit, const char *queue, uint32_t states) {
    ADD(commit, note_other(false), pack_queue_purge(BODY(commit), queue, states));
}

/* ---- running */

/* Returns the code of the whole commit: see tarry_commit_run. */
static int overall(const struct request *request) {
    if (request->code != TARRY_OK) return request->code;
    const Tarry__CommitReply *reply = request->reply->commit;
    if (reply->aborted) return TARRY_ABORTED;
    for (size_t i = 0; i < reply->n_results; i++)
        if (reply->results[i]->code != TARRY__CODE__OK) return code_from_proto(reply->results[i]->code);
    return TARRY_OK;
}

static void results_fill(const struct request *request, struct tarry_result *out_results) {
    for (size_t i = 0; i < request->count; i++) request_result(request, i, &out_results[i]);
}

/* Submits the request; on failure the commit keeps it. *out_reads: the waiting caller reads the reply itself. */
static int submit(tarry_commit *commit, uint64_t timeout_ms, request_done_fn *done, void *arg, bool *out_reads) {
    const bool waits = out_reads != NULL;
    commit->request->done = done;
    commit->request->arg = arg;
    commit->request->timeout_ms = timeout_of(timeout_ms);
    commit->request->named = commit->is_named;
    commit->request->name = commit->name;
    pthread_mutex_lock(&commit->client->lock);
    int rv = request_submit_commit(commit->client, commit->request, waits);
    if (waits && rv == TARRY_OK) *out_reads = caller_may_read(commit->client);
    pthread_mutex_unlock(&commit->client->lock);
    if (rv == TARRY_OK) commit->request = NULL, commit->is_named = false;
    return rv;
}

struct running {
    tarry_commit *commit;
    atomic_bool is_done; /* true: the commit has its results; set before the semaphore `ready` is posted */
    sem_t ready;
    int code;
};

static void run_done(void *arg, struct request *request) {
    struct running *running = arg;
    results_fill(request, running->commit->results);
    running->commit->result_count = request->count;
    running->code = overall(request);
    atomic_store(&running->is_done, true);
    sem_post(&running->ready);
}

/* Memory for the results is allocated before sending, so that TARRY_E_NOMEM means that nothing was done. */
static int run(tarry_commit *commit, uint64_t timeout_ms) {
    struct running running = {.commit = commit};
    commit->results = malloc(commit->request->count * sizeof(*commit->results));
    if (commit->results == NULL) return TARRY_E_NOMEM;
    if (sem_init(&running.ready, 0, 0) != 0) return TARRY_E_SYSTEM;
    bool reads = false;
    int rv = submit(commit, timeout_ms, run_done, &running, &reads);
    if (reads) caller_read(commit->client, &running.is_done);
    if (rv == TARRY_OK) {
        while (sem_wait(&running.ready) != 0) {
        } /* EINTR */
        rv = running.code;
    }
    sem_destroy(&running.ready);
    return rv;
}

int tarry_commit_run(tarry_commit *commit, const struct tarry_call *given, const struct tarry_result **out_results,
                     size_t *out_count) {
    struct tarry_call call;
    if (commit == NULL) return TARRY_E_ARGUMENT;
    if (commit->failed != TARRY_OK) return commit->failed;
    int rv = OPTIONS_TAKE(call, given);
    if (rv == TARRY_OK) rv = may_block(commit->client);
    if (rv != TARRY_OK) return rv;
    results_drop(commit);
    if (tarry_commit_count(commit) > 0) rv = run(commit, call.timeout_ms);
    if (out_results != NULL) *out_results = commit->result_count > 0 ? commit->results : NULL;
    if (out_count != NULL) *out_count = commit->result_count;
    return rv;
}

struct submitted {
    struct deferred deferred; /* must be the first member, because submitted_tell converts its address */
    tarry_client *client;
    tarry_commit_done_fn done;
    void *arg;
    int code;
    struct tarry_result *results;
    size_t count;
};

static void submitted_tell(struct deferred *deferred) {
    struct submitted *submitted = (struct submitted *)deferred;
    submitted->done(submitted->arg, submitted->code, submitted->results, submitted->count);
    free(submitted->results);
    free(submitted);
}

/* Allocates the results only now, because they are large and many commits may wait. Without memory the callback
 * still gets the code, which is the commit's outcome. */
static void submit_done(void *arg, struct request *request) {
    struct submitted *submitted = arg;
    if (submitted->done == NULL) {
        free(submitted);
        return;
    }
    submitted->code = overall(request);
    submitted->results = malloc(request->count * sizeof(*submitted->results));
    submitted->count = submitted->results == NULL ? 0 : request->count;
    if (submitted->results != NULL) results_fill(request, submitted->results);
    if (submitted->client->dispatch.on)
        dispatch_push(submitted->client, &submitted->deferred);
    else
        submitted_tell(&submitted->deferred);
}

int tarry_commit_submit(tarry_commit *commit, const struct tarry_call *given, tarry_commit_done_fn done, void *arg) {
    struct tarry_call call;
    if (commit == NULL || tarry_commit_count(commit) == 0) return TARRY_E_ARGUMENT;
    if (commit->failed != TARRY_OK) return commit->failed;
    int rv = OPTIONS_TAKE(call, given);
    if (rv == TARRY_OK) rv = may_call(commit->client);
    if (rv != TARRY_OK) return rv;
    struct submitted *submitted = malloc(sizeof(*submitted));
    if (submitted == NULL) return TARRY_E_NOMEM;
    *submitted =
        (struct submitted){.deferred = {NULL, submitted_tell}, .client = commit->client, .done = done, .arg = arg};
    rv = submit(commit, call.timeout_ms, submit_done, submitted, NULL);
    if (rv != TARRY_OK) free(submitted);
    return rv;
}
