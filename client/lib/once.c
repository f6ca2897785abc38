/* once.c: names of commits (tarry_once.h, ONCE-1). A name is a producer and a sequence. A program gets the name before
 * it sends the commit, may use it again after a restart, and may ask for the commit's outcome.
 *
 * Named commits have their own producer, in client->ledger, because their sequences are assigned long before they are
 * sent. If they shared a producer with other commits, the broker would have to keep the replies to the others for as
 * long. A request under a former producer, or under a name from another process, says oldest_unanswered = 1, so that
 * the broker forgets no reply that may still be requested. */
#include "client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the ledger */

uint64_t ledger_oldest(const struct ledger *ledger, const struct tarry_commit_id *id) {
    if (id->producer != ledger->producer) return 1;
    uint64_t oldest = id->sequence;
    for (size_t i = 0; i < ledger->open_count; i++)
        if (ledger->open[i] < oldest) oldest = ledger->open[i];
    return oldest;
}

void ledger_close(struct ledger *ledger, const struct tarry_commit_id *id) {
    if (id->producer != ledger->producer) return;
    for (size_t i = 0; i < ledger->open_count; i++)
        if (ledger->open[i] == id->sequence) ledger->open[i] = ledger->open[--ledger->open_count];
}

/* Returns whether there may be one more open commit. The broker remembers only COMMITS_PER_PRODUCER_MAX sequences,
 * which must cover all open commits. */
static bool ledger_has_room(const struct ledger *ledger) {
    const struct tarry_commit_id next = {ledger->producer, ledger->next_sequence, {0}};
    return ledger->producer != 0 && ledger->open_count < LEDGER_MAX &&
           next.sequence - ledger_oldest(ledger, &next) < COMMITS_PER_PRODUCER_MAX;
}

void producer_leave(tarry_client *client, uint64_t producer) {
    if (producer == client->producer) client->producer = 0;
    if (producer == client->ledger.producer) client->ledger = (struct ledger){0};
}

/* Requests a new producer for named commits if the present one has no free sequence. Open commits of the former
 * producer stay valid: they are sent with oldest_unanswered = 1 (ledger_oldest). */
static int ledger_open(tarry_client *client, uint32_t timeout_ms, char out_message[TARRY_MESSAGE_SIZE]) {
    if (may_block(client) != TARRY_OK) return message_say(out_message, may_block(client));
    pthread_mutex_lock(&client->lock);
    const bool has_room = ledger_has_room(&client->ledger);
    pthread_mutex_unlock(&client->lock);
    if (has_room) return TARRY_OK;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Hello hello = TARRY__HELLO__INIT;
    wire.body_case = TARRY__REQUEST__BODY_HELLO;
    wire.hello = &hello;
    struct call call;
    int rv = call_run_within(client, &wire, timeout_ms, &call, out_message);
    if (rv == TARRY_OK && (call.reply->body_case != TARRY__REPLY__BODY_HELLO || call.reply->hello->producer == 0))
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    if (rv == TARRY_OK) {
        pthread_mutex_lock(&client->lock);
        client->ledger = (struct ledger){.producer = call.reply->hello->producer, .next_sequence = 1};
        note_greeting(client, call.reply->hello->cluster);
        pthread_mutex_unlock(&client->lock);
    }
    call_end(&call);
    return rv;
}

/* ---- naming */

int tarry_commit_prepare(tarry_commit *commit, const struct tarry_call *given, struct tarry_commit_id *out_id,
                         char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call call;
    int taken = OPTIONS_TAKE(call, given);
    if (taken != TARRY_OK) return message_say(out_message, taken);
    if (commit == NULL || out_id == NULL || commit_name(commit) != NULL)
        return message_say(out_message, TARRY_E_ARGUMENT);
    tarry_client *client = commit_client(commit);
    struct tarry_commit_id id = {0};
    while (id.producer == 0) {
        int rv = ledger_open(client, timeout_of(call.timeout_ms), out_message);
        if (rv != TARRY_OK) return rv;
        pthread_mutex_lock(&client->lock);
        struct ledger *ledger = &client->ledger;
        if (ledger_has_room(ledger)) { /* false if other threads have used the free sequences since ledger_open; then
                                          the loop repeats */
            id.producer = ledger->producer;
            id.sequence = ledger->next_sequence++;
            memcpy(id.cluster, client->greeted, sizeof(id.cluster));
            ledger->open[ledger->open_count++] = id.sequence;
        }
        pthread_mutex_unlock(&client->lock);
    }
    commit_set_name(commit, &id);
    message_set(out_message, "");
    *out_id = id;
    return TARRY_OK;
}

int tarry_commit_resume(tarry_commit *commit, const struct tarry_commit_id *id) {
    if (commit == NULL || id == NULL || id->producer == 0 || id->sequence == 0 || commit_name(commit) != NULL)
        return TARRY_E_ARGUMENT;
    commit_set_name(commit, id);
    return TARRY_OK;
}

int tarry_result_commit_id(tarry_client *client, const struct tarry_result *result, struct tarry_commit_id *out_id) {
    if (client == NULL || result == NULL || out_id == NULL || result->producer == 0) return TARRY_E_ARGUMENT;
    int rv = may_call(client);
    if (rv != TARRY_OK) return rv;
    struct tarry_commit_id id = {.producer = result->producer, .sequence = result->sequence};
    pthread_mutex_lock(&client->lock);
    memcpy(id.cluster, client->greeted, sizeof(id.cluster));
    pthread_mutex_unlock(&client->lock);
    *out_id = id;
    return TARRY_OK;
}

/* ---- asking */

struct inquiry {
    sem_t ready;
    int code;
    struct tarry_result *results;
    size_t count;
    char message[TARRY_MESSAGE_SIZE];
};

static void inquiry_done(void *arg, struct request *request) {
    struct inquiry *inquiry = arg;
    inquiry->code = request->code;
    message_set(inquiry->message, request->message);
    if (request->code == TARRY_OK) {
        const Tarry__CommitReply *reply = request->reply->commit;
        inquiry->results = malloc(reply->n_results * sizeof(*inquiry->results));
        if (inquiry->results == NULL) inquiry->code = TARRY_E_NOMEM;
        for (size_t i = 0; i < reply->n_results && inquiry->results != NULL; i++) {
            struct tarry_result *result = &inquiry->results[i];
            request_result(request, i, result);
            if (inquiry->code == TARRY_OK) inquiry->code = result->code;
            inquiry->count++;
        }
        if (reply->aborted && inquiry->code != TARRY_E_NOMEM) inquiry->code = TARRY_ABORTED;
    }
    sem_post(&inquiry->ready);
}

/* Asks for the outcome of the named commit. The caller frees the results. */
static int inquire(tarry_client *client, const struct tarry_commit_id *id, uint32_t timeout_ms,
                   struct inquiry *inquiry) {
    *inquiry = (struct inquiry){.code = TARRY_OK};
    int rv = may_block(client);
    if (rv != TARRY_OK) return rv;
    if (sem_init(&inquiry->ready, 0, 0) != 0) return TARRY_E_SYSTEM;
    pthread_mutex_lock(&client->lock);
    struct request *request = request_new(client, REQUEST_COMMIT);
    rv = request == NULL ? TARRY_E_NOMEM : TARRY_OK;
    if (request != NULL) {
        request->named = request->inquires = true;
        request->name = *id;
        request->timeout_ms = timeout_ms;
        request->done = inquiry_done;
        request->arg = inquiry;
        rv = request_submit_commit(client, request, true);
        if (rv != TARRY_OK) request_free(client, request);
    }
    pthread_mutex_unlock(&client->lock);
    if (rv == TARRY_OK) {
        while (sem_wait(&inquiry->ready) != 0) {
        } /* EINTR */
        rv = inquiry->code;
    }
    sem_destroy(&inquiry->ready);
    return rv;
}

int tarry_commit_ask(tarry_commit *commit, const struct tarry_commit_id *id, const struct tarry_call *given,
                     const struct tarry_result **out_results, size_t *out_count) {
    struct tarry_call call;
    if (commit == NULL || id == NULL || id->producer == 0 || id->sequence == 0 || tarry_commit_count(commit) != 0 ||
        commit_name(commit) != NULL)
        return TARRY_E_ARGUMENT;
    struct inquiry inquiry = {.code = TARRY_OK};
    int rv = OPTIONS_TAKE(call, given);
    if (rv == TARRY_OK) rv = inquire(commit_client(commit), id, timeout_of(call.timeout_ms), &inquiry);
    commit_take_results(commit, inquiry.results, inquiry.count);
    if (out_results != NULL) *out_results = inquiry.results;
    if (out_count != NULL) *out_count = inquiry.count;
    return rv;
}

int tarry_ask(tarry_client *client, const struct tarry_result *unknown, const struct tarry_call *given,
              struct tarry_result *out_result) {
    struct tarry_call call;
    struct tarry_commit_id id;
    struct tarry_result result;
    struct inquiry inquiry = {.code = TARRY_OK};
    int rv = tarry_result_commit_id(client, unknown, &id);
    if (rv == TARRY_OK) rv = OPTIONS_TAKE(call, given);
    if (rv == TARRY_OK) rv = inquire(client, &id, timeout_of(call.timeout_ms), &inquiry);
    if (inquiry.results != NULL && unknown->index < inquiry.count) {
        result = inquiry.results[unknown->index];
    } else {
        /* A reply with results has too few of them for the operation at unknown->index. */
        if (inquiry.results != NULL) rv = TARRY_E_PROTOCOL;
        result_failed(rv, inquiry.message[0] != 0 && inquiry.results == NULL ? inquiry.message : NULL, &result);
    }
    free(inquiry.results);
    if (out_result != NULL) result_copy(&result, out_result);
    return result.code;
}

/* ---- as text */

char *tarry_commit_id_format(const struct tarry_commit_id *id, char text[TARRY_COMMIT_ID_SIZE]) {
    size_t at = 0;
    for (size_t i = 0; i < sizeof(id->cluster); i++)
        at += (size_t)snprintf(text + at, TARRY_COMMIT_ID_SIZE - at, "%02x", id->cluster[i]);
    snprintf(text + at, TARRY_COMMIT_ID_SIZE - at, "-%" PRIu64 "-%" PRIu64, id->producer, id->sequence);
    return text;
}

/* Returns -1 if the character is not a hexadecimal digit. */
static int digit_of(char hexadecimal) {
    if (hexadecimal >= '0' && hexadecimal <= '9') return hexadecimal - '0';
    return hexadecimal >= 'a' && hexadecimal <= 'f' ? hexadecimal - 'a' + 10 : -1;
}

int tarry_commit_id_parse(const char *text, struct tarry_commit_id *out_id) {
    if (text == NULL || out_id == NULL) return TARRY_E_ARGUMENT;
    struct tarry_commit_id id = {0};
    for (size_t i = 0; i < sizeof(id.cluster); i++, text += 2) {
        const int high = digit_of(text[0]), low = high < 0 ? -1 : digit_of(text[1]);
        if (low < 0) return TARRY_INVALID;
        id.cluster[i] = (uint8_t)(high << 4 | low);
    }
    if (*text != '-' || (text = parse_number(text + 1, UINT64_MAX, &id.producer)) == NULL) return TARRY_INVALID;
    if (*text != '-' || (text = parse_number(text + 1, UINT64_MAX, &id.sequence)) == NULL) return TARRY_INVALID;
    if (*text != 0 || id.producer == 0 || id.sequence == 0) return TARRY_INVALID;
    *out_id = id;
    return TARRY_OK;
}
