/* commit.c: a commit built by hand: one request, one frame in the broker's log. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

struct tarry_commit {
    tarry_client *client;
    struct request *request; /* what is being built; NULL: nothing yet */
    bool atomic;
    int failed; /* the first failure to add */
    /* the last run's answer */
    struct tarry_result *results;
    size_t result_count;
    char *messages;
};

static void results_drop(tarry_commit *commit) {
    free(commit->results);
    free(commit->messages);
    commit->results = NULL;
    commit->messages = NULL;
    commit->result_count = 0;
}

int tarry_commit_new(tarry_client *client, bool atomic, tarry_commit **out_commit) {
    if (client == NULL || out_commit == NULL) return TARRY_E_ARGUMENT;
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
    if (commit->request == NULL) return;
    pthread_mutex_lock(&commit->client->lock);
    request_free(commit->client, commit->request);
    pthread_mutex_unlock(&commit->client->lock);
    commit->request = NULL;
}

void tarry_commit_free(tarry_commit *commit) {
    tarry_commit_clear(commit);
    free(commit);
}

size_t tarry_commit_count(const tarry_commit *commit) {
    return commit == NULL || commit->request == NULL ? 0 : commit->request->count;
}

static int add_begin(tarry_commit *commit) {
    if (commit->request != NULL) return TARRY_OK;
    pthread_mutex_lock(&commit->client->lock);
    commit->request = request_new(commit->client, REQUEST_COMMIT);
    pthread_mutex_unlock(&commit->client->lock);
    if (commit->request == NULL) return TARRY_E_NOMEM;
    commit->request->atomic = commit->atomic;
    return TARRY_OK;
}

/* `rv` is what packing said; `before` the body's size before it. */
static int add_end(tarry_commit *commit, int rv, size_t before, struct op_note note) {
    struct request *request = commit->request;
    if (rv == TARRY_OK &&
        (request->count >= OPS_PER_COMMIT_MAX || request->body.size > REQUEST_SIZE_MAX - REQUEST_OVERHEAD_MAX))
        rv = TARRY_TOO_LARGE;
    if (rv == TARRY_OK) rv = request_add_note(request, note);
    if (rv != TARRY_OK) {
        request->body.size = before;
        if (commit->failed == TARRY_OK) commit->failed = rv;
    }
    return rv;
}

#define SETTLES(id, token) ((struct op_note){NULL, NULL, (id), (token)})
#define SETTLES_NOTHING ((struct op_note){NULL, NULL, 0, {0, 0}})
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

int tarry_commit_schedule(tarry_commit *commit, const struct tarry_schedule_options *options) {
    ADD(commit, SETTLES_NOTHING, pack_schedule(BODY(commit), options));
}
int tarry_commit_cancel(tarry_commit *commit, const struct tarry_ref *ref, bool withdraw) {
    ADD(commit, SETTLES_NOTHING, pack_cancel(BODY(commit), ref, withdraw));
}
int tarry_commit_move(tarry_commit *commit, const struct tarry_ref *ref, enum tarry_when when, uint64_t when_ms) {
    ADD(commit, SETTLES_NOTHING, pack_move(BODY(commit), ref, when, when_ms));
}
int tarry_commit_ack(tarry_commit *commit, uint64_t id, struct tarry_token token) {
    ADD(commit, SETTLES(id, token), pack_ack(BODY(commit), id, token));
}
int tarry_commit_nack(tarry_commit *commit, uint64_t id, struct tarry_token token,
                      const struct tarry_nack_options *options) {
    ADD(commit, SETTLES(id, token), pack_nack(BODY(commit), id, token, options));
}
int tarry_commit_extend(tarry_commit *commit, uint64_t id, struct tarry_token token, uint64_t lease_ms) {
    ADD(commit, SETTLES_NOTHING, pack_extend(BODY(commit), id, token, lease_ms));
}
int tarry_commit_release(tarry_commit *commit, uint64_t id, struct tarry_token token) {
    ADD(commit, SETTLES(id, token), pack_release(BODY(commit), id, token));
}
int tarry_commit_dead(tarry_commit *commit, enum tarry_dead_what what, const struct tarry_ref *ref, bool all) {
    ADD(commit, SETTLES_NOTHING, pack_dead(BODY(commit), what, ref, all));
}
int tarry_commit_redact(tarry_commit *commit, const struct tarry_redact_options *options) {
    ADD(commit, SETTLES_NOTHING, pack_redact(BODY(commit), options));
}
int tarry_commit_queue_set(tarry_commit *commit, const char *queue, const struct tarry_policy *policy,
                           uint32_t fields) {
    ADD(commit, SETTLES_NOTHING, pack_queue_set(BODY(commit), queue, policy, fields));
}
int tarry_commit_queue_pause(tarry_commit *commit, const char *queue, bool paused, uint64_t for_ms) {
    ADD(commit, SETTLES_NOTHING, pack_queue_pause(BODY(commit), queue, paused, for_ms));
}
int tarry_commit_queue_purge(tarry_commit *commit, const char *queue, uint32_t states) {
    ADD(commit, SETTLES_NOTHING, pack_queue_purge(BODY(commit), queue, states));
}

/* ---- running */

/* The code of the whole: see tarry_commit_run. */
static int overall(const struct request *request, const struct tarry_result *results) {
    if (request->code != TARRY_OK) return request->code;
    if (request->reply->commit->aborted) return TARRY_ABORTED;
    for (size_t i = 0; i < request->count; i++)
        if (results[i].code != TARRY_OK) return results[i].code;
    return TARRY_OK;
}

/* All results, with messages borrowed from the request; NULL: out of memory. */
static struct tarry_result *results_of(const struct request *request) {
    struct tarry_result *results = malloc((request->count + 1) * sizeof(*results));
    if (results == NULL) return NULL;
    for (size_t i = 0; i < request->count; i++) request_result(request, i, &results[i]);
    return results;
}

struct running {
    tarry_commit *commit;
    sem_t ready;
    int code;
};

/* Copies the messages, which die with the request. */
static int results_keep(tarry_commit *commit, struct tarry_result *results, size_t count) {
    size_t size = 1;
    for (size_t i = 0; i < count; i++) size += strlen(results[i].message) + 1;
    char *messages = malloc(size);
    if (messages == NULL) return TARRY_E_NOMEM;
    char *at = messages;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(results[i].message) + 1;
        results[i].message = memcpy(at, results[i].message, length);
        at += length;
    }
    commit->results = results;
    commit->result_count = count;
    commit->messages = messages;
    return TARRY_OK;
}

static void run_done(void *arg, struct request *request) {
    struct running *running = arg;
    struct tarry_result *results = results_of(request);
    running->code = results == NULL ? TARRY_E_NOMEM : overall(request, results);
    if (results != NULL && results_keep(running->commit, results, request->count) != TARRY_OK) {
        free(results);
        running->code = TARRY_E_NOMEM;
    }
    sem_post(&running->ready);
}

/* Hands the request over; it stays the commit's on failure. */
static int submit(tarry_commit *commit, request_done_fn *done, void *arg, bool wait_for_room) {
    commit->request->done = done;
    commit->request->arg = arg;
    pthread_mutex_lock(&commit->client->lock);
    int rv = request_submit_commit(commit->client, commit->request, wait_for_room);
    pthread_mutex_unlock(&commit->client->lock);
    if (rv == TARRY_OK) commit->request = NULL;
    return rv;
}

int tarry_commit_run(tarry_commit *commit, const struct tarry_result **out_results, size_t *out_count) {
    if (commit == NULL) return TARRY_E_ARGUMENT;
    if (commit->failed != TARRY_OK) return commit->failed;
    if (engine_is_me(commit->client)) return TARRY_E_CALLBACK;
    results_drop(commit);
    int rv = TARRY_OK;
    if (tarry_commit_count(commit) > 0) {
        struct running running = {.commit = commit};
        if (sem_init(&running.ready, 0, 0) != 0) return TARRY_E_SYSTEM;
        rv = submit(commit, run_done, &running, true);
        if (rv == TARRY_OK) {
            while (sem_wait(&running.ready) != 0) {
            } /* EINTR */
            rv = running.code;
        }
        sem_destroy(&running.ready);
    }
    if (out_results != NULL) *out_results = commit->results;
    if (out_count != NULL) *out_count = commit->result_count;
    return rv;
}

struct submitted {
    tarry_commit_done_fn done;
    void *arg;
};

static void submit_done(void *arg, struct request *request) {
    struct submitted submitted = *(struct submitted *)arg;
    free(arg);
    if (submitted.done == NULL) return;
    struct tarry_result *results = results_of(request);
    int code = results == NULL ? TARRY_E_NOMEM : overall(request, results);
    submitted.done(submitted.arg, code, results, results == NULL ? 0 : request->count);
    free(results);
}

int tarry_commit_submit(tarry_commit *commit, tarry_commit_done_fn done, void *arg) {
    if (commit == NULL || tarry_commit_count(commit) == 0) return TARRY_E_ARGUMENT;
    if (commit->failed != TARRY_OK) return commit->failed;
    struct submitted *submitted = malloc(sizeof(*submitted));
    if (submitted == NULL) return TARRY_E_NOMEM;
    *submitted = (struct submitted){done, arg};
    int rv = submit(commit, submit_done, submitted, false);
    if (rv != TARRY_OK) free(submitted);
    return rv;
}
