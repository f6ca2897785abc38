/* node_record.c: see node_parts.h. */
#include "node_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "datadir.h"
#include "fatal.h"
#include "logfmt.h"
#include "node.h"
#include "record_client.h"

struct record_word {
    struct node *node;
    struct call *call;
    pthread_t thread;
    struct pair pair; /* copy of the rules' state when the command arrived; the new record is made from it */
    struct record_member members[RECORD_NODES];
    struct record_client record_client;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_heard; /* true: the coordinator has answered */
    _Atomic bool is_over;
};

static const char no_coordinator[] =
    "this pair has no coordinator, so it has no record: 'tarry status' says which node leads";
static const char busy[] = "another 'tarry pair record' is running: try again in a second";
static const char no_memory[] = "out of memory";
static const char nothing_lost[] =
    "nothing was written, because the coordinator's record is not older than the one that this node knows";
static const char not_leading[] =
    "this node does not lead, so nothing was written: run the command for the node that leads; or, if that node is "
    "stopped and has acknowledged nothing that this node lacks, add --peer-is-stopped";
static const char overtaken[] = "the record changed in the meantime, so nothing was written: check it with 'tarry pair "
                                "record --show', and try again";

static void on_heard(void *argument) {
    struct record_word *word = argument;
    pthread_mutex_lock(&word->mutex);
    word->is_heard = true;
    pthread_cond_signal(&word->changed);
    pthread_mutex_unlock(&word->mutex);
}

static void on_changed(void *argument) {}

static void wait_for_answer(struct record_word *word) {
    pthread_mutex_lock(&word->mutex);
    while (!word->is_heard) pthread_cond_wait(&word->changed, &word->mutex);
    word->is_heard = false;
    pthread_mutex_unlock(&word->mutex);
}

static void refuse(struct record_word *word, const char *sentence) {
    word->call->answer(word->call, reply_pack_refusal(TARRY__CODE__NOT_DONE, sentence));
}

/* Returns whether the record that was read is older than this node's knowledge. A leader knows everything about its own
 * epoch; the other node knows only the epoch's number. */
static bool is_behind(const struct pair *pair, const struct pair_event *read) {
    if (pair_is_lost(pair, read)) return true;
    const struct pair_record *known = &pair->record, *found = &read->record;
    bool is_own = pair->role == PAIR_LEADING && found->epoch == pair->epoch && found->leader == pair->self;
    return is_own &&
           (found->run != known->run || found->in_sync != known->in_sync || found->high_water < known->high_water);
}

static struct pair_record record_of(const struct pair *pair) {
    struct pair_record record = {
        .epoch = pair->hard_state.recorded,
        .leader = pair->self,
        .in_sync = (uint8_t)(1u << pair->self),
        .start = pair->durable,
        .high_water = pair->durable,
    };
    if (pair->role != PAIR_LEADING) return record;
    record = pair->record; /* start from the last record: this leader waits for every node that the record shows as in
                              sync */
    if (pair->committed > record.high_water) record.high_water = pair->committed;
    return record;
}

/* Writes the record again. Returns NULL, or the reason why it was not written. */
static const char *write_again(struct record_word *word, const struct pair_event *read) {
    char message[COORDINATOR_MESSAGE_SIZE];
    const struct pair *pair = &word->pair;
    if (!is_behind(pair, read)) return nothing_lost;
    if (pair->role != PAIR_LEADING && !word->call->engine_request.event.request.message->pair->peer_is_stopped)
        return not_leading;
    struct pair_record record = record_of(pair);
    struct pair_event event;
    record_client_swap(&word->record_client, read->version, &record, word->members);
    wait_for_answer(word);
    /* The result is always 0 for a compare-and-set. */
    (void)record_client_take(&word->record_client, word->pair.hard_state.recorded, &event, message);
    if (event.outcome == PAIR_REFUSED) return overtaken;
    if (event.outcome != PAIR_DONE) return word->record_client.call.reason;
    logfmt("record_written", "epoch=%u version=%" PRIu64 " was_version=%" PRIu64 " action=restart", record.epoch,
           event.version, read->version);
    return NULL;
}

/* Reads the record into `text`. If the command requests it, writes the record again and sets `*out_again`. Returns NULL
 * on success, or the reason for a failure. */
static const char *look(struct record_word *word, char text[COORDINATOR_VALUE_SIZE_MAX + 1],
                        char message[COORDINATOR_MESSAGE_SIZE], bool *out_again) {
    bool writes = word->call->engine_request.event.request.message->pair->what == TARRY__PAIR__WHAT__WRITE_RECORD;
    struct pair_event event;
    record_client_read(&word->record_client, RECORD_CLIENT_RECORD);
    wait_for_answer(word);
    bool is_strange = record_client_take(&word->record_client, word->pair.hard_state.recorded, &event, message) != 0;
    if (event.outcome != PAIR_DONE) return word->record_client.call.reason;
    memcpy(text, word->record_client.call.value, word->record_client.call.size + 1);
    if (!writes) return NULL;
    const char *problem = is_strange ? message : write_again(word, &event);
    if (problem != NULL) return problem;
    memcpy(text, word->record_client.value, COORDINATOR_VALUE_SIZE_MAX + 1);
    *out_again = true;
    return NULL;
}

static void *record_word_run(void *argument) {
    struct record_word *word = argument;
    const struct record_client_access where = node_access(word->node->needs.config);
    char message[COORDINATOR_MESSAGE_SIZE], text[COORDINATOR_VALUE_SIZE_MAX + 1] = "";
    char problem[COORDINATOR_MESSAGE_SIZE] = "";
    bool again = false;
    if (record_client_open(&word->record_client, &where, message) != 0) {
        snprintf(problem, sizeof(problem), "%s", message);
    } else {
        const char *found = look(word, text, message, &again);
        if (found != NULL) snprintf(problem, sizeof(problem), "%s", found);
        record_client_close(&word->record_client);
    }
    atomic_store(&word->is_over, true); /* set before the reply, because the client may ask again at once */
    if (problem[0] != '\0')
        refuse(word, problem);
    else
        node_status_with(word->node, word->call, text);
    if (again) node_start_again(word->node);
    return NULL;
}

void record_word_join(struct node *node) {
    struct record_word *word = node->record_word;
    if (word == NULL) return;
    pthread_join(word->thread, NULL);
    pthread_cond_destroy(&word->changed);
    pthread_mutex_destroy(&word->mutex);
    free(word);
    node->record_word = NULL;
}

void record_word_take(struct node *node, struct call *call) {
    bool is_busy = node->record_word != NULL && !atomic_load(&node->record_word->is_over);
    if (!is_busy) record_word_join(node);
    struct record_word *word = is_busy || node->pair.by_operator ? NULL : calloc(1, sizeof(*word));
    if (word == NULL) {
        const char *why = node->pair.by_operator ? no_coordinator : is_busy ? busy : no_memory;
        call->answer(call, reply_pack_refusal(TARRY__CODE__NOT_DONE, why));
        return;
    }
    word->node = node;
    word->call = call;
    word->pair = node->pair;
    node_members(node, word->members);
    word->record_client.done = on_heard;
    word->record_client.changed = on_changed;
    word->record_client.argument = word;
    word->record_client.self = node->pair.self;
    memcpy(word->record_client.cluster, node->needs.dir->cluster, CLUSTER_ID_SIZE);
    memcpy(word->record_client.member, node->needs.dir->member.id, MEMBER_ID_SIZE);
    pthread_mutex_init(&word->mutex, NULL);
    pthread_cond_init(&word->changed, NULL);
    node->record_word = word;
    thread_start(&word->thread, "tarry-record", record_word_run, word);
}
