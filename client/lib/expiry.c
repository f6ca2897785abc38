/* expiry.c: deadlines. A deadline belongs to a call: the call ends at its deadline, whatever other calls do.
 *
 * Operations of many calls share one commit, so each operation has its own deadline, and the request has a timer for
 * the earliest. A commit without a sequence has never been sent, or was refused: expired operations are removed from
 * it, and have no effect. A commit that may have been executed keeps its operations: the callers of the expired ones
 * get the timeout, and the commit stays under way, with its sequence, for the other callers (ONCE-1).
 *
 * Codes for the caller:
 *
 *   sent, and one send has no reply  ────────► TARRY_FAILED if that was the broker's last reply, else
 *                                              TARRY_E_TIMEOUT: the outcome is unknown
 *   refused by all addresses, or no token ───► TARRY_DENIED, at once (expiry_denied); nothing was done
 *   in the token's file
 *   every send was refused ──────────────────► the last refusal: TARRY_BUSY, TARRY_STOPPING, TARRY_NOT_PRIMARY,
 *                                              TARRY_BEHIND
 *   never sent ──────────────────────────────► TARRY_BUSY if a broker has replied to others since the call was made;
 *                                              TARRY_NOT_PRIMARY if all replies said so; else TARRY_E_NO_BROKER */
#include "client.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

uint32_t timeout_of(uint64_t timeout_ms) {
    if (timeout_ms == TARRY_FOREVER) return TIMEOUT_NEVER;
    return timeout_ms < TIMEOUT_NEVER ? (uint32_t)timeout_ms : TIMEOUT_NEVER - 1;
}

uint64_t deadline_of(const tarry_client *client, uint64_t made_ms, uint32_t timeout_ms) {
    if (timeout_ms == 0) timeout_ms = timeout_of(client->timeout_ms);
    return timeout_ms == TIMEOUT_NEVER ? UINT64_MAX : made_ms + timeout_ms;
}

void expiry_watch(tarry_client *client, struct request *request, uint64_t deadline_ms) {
    if (deadline_ms == UINT64_MAX) return;
    if (request->deadline.place == 0 || deadline_ms < request->deadline.at_ms)
        timer_set(&client->deadlines, &request->deadline, deadline_ms);
}

static uint64_t note_deadline(const struct op_note *note) {
    if (note->told || note->timeout_ms == TIMEOUT_NEVER) return UINT64_MAX;
    return note->made_ms + note->timeout_ms;
}

static uint64_t earliest_deadline(const struct request *request) {
    uint64_t deadline_ms = UINT64_MAX;
    for (size_t i = 0; i < request->count; i++) {
        uint64_t at_ms = note_deadline(&request->notes[i]);
        if (at_ms < deadline_ms) deadline_ms = at_ms;
    }
    return deadline_ms;
}

void expiry_watch_notes(tarry_client *client, struct request *request) {
    timer_clear(&client->deadlines, &request->deadline);
    expiry_watch(client, request, earliest_deadline(request));
}

/* True: the request is not complete: it waits or is under way. */
static bool is_open(const tarry_client *client, const struct request *request) {
    const struct request_list *list = request->links[IN_QUEUE].list;
    if (request->slot != NULL || client->commits[request->rank].gathering == request) return true;
    return list != NULL && list != &client->finished;
}

static void limit(struct op_note *note, uint64_t until_ms) {
    const uint32_t left_ms = until_ms > note->made_ms ? timeout_of(until_ms - note->made_ms) : 0;
    if (left_ms < note->timeout_ms) note->timeout_ms = left_ms;
}

void expiry_limit(tarry_client *client, bool is_meant(const struct op_note *note, const void *argument),
                  const void *argument, uint64_t until_ms) {
    for (struct request *at = client->settling.first; at != NULL; at = at->links[AMONG_SETTLING].next) {
        size_t count = 0;
        if (!is_open(client, at) || at->whole) continue;
        for (size_t i = 0; i < at->count; i++) {
            if (!is_meant(&at->notes[i], argument)) continue;
            limit(&at->notes[i], until_ms);
            count++;
        }
        if (count > 0) expiry_watch_notes(client, at);
    }
    engine_kick(client);
}

/* ---- codes for the caller */

/* Returns the code of a call that was never sent. */
static int code_of_unsent(const tarry_client *client, uint64_t made_ms) {
    if (client->answered_ms >= made_ms) return TARRY_BUSY;
    return client->not_primary_ms >= made_ms ? TARRY_NOT_PRIMARY : TARRY_E_NO_BROKER;
}

static const char *sentence_of(const tarry_client *client, const struct request *request, int code) {
    if (code == TARRY_NOT_PRIMARY) return "the client found no primary within the timeout; nothing was done";
    if (code == TARRY_STOPPING)
        return "the broker was stopping, and no other broker answered within the timeout; nothing was done";
    if (code == TARRY_BEHIND) return "the follower did not catch up within the timeout";
    if (code != TARRY_BUSY) return tarry_code_sentence(code);
    if (request->refused == TARRY__CODE__BUSY) return "the broker stayed busy until the timeout; nothing was done";
    return "earlier requests took too long, so this request was not sent within the timeout; nothing was done";
}

/* Writes a message with the last result of each address, or with the reason why the broker is busy. */
static const char *explain(tarry_client *client, struct request *request, int code) {
    char told[MESSAGE_SIZE_MAX] = "";
    const char *sentence = sentence_of(client, request, code);
    if (code == TARRY_BUSY || code == TARRY_BEHIND)
        message_copy(told, sizeof(told), client->busy_reason);
    else
        link_tell(client, told, sizeof(told));
    if (told[0] == 0) return sentence;
    size_t size = strlen(sentence) + strlen(told) + 3;
    char *text = arena_alloc(&request->arena, size);
    if (text == NULL) return sentence;
    snprintf(text, size, "%s: %s", sentence, told);
    return text;
}

static uint64_t made_of(const struct request *request) {
    bool is_divisible = request->kind == REQUEST_COMMIT && !request->whole;
    return is_divisible ? request->notes[0].made_ms : request->made_ms;
}

/* Sets code and message of a call that exceeded its deadline. */
static void expire(tarry_client *client, struct request *request) {
    int code;
    if (request->kind == REQUEST_COMMIT && request->unanswered > 0) producer_leave(client, request->producer);
    if (request->refused == TARRY__CODE__BEHIND)
        code = TARRY_BEHIND; /* the last refusal (BEHIND) is the result of a read request, whether or not the request
                                was sent again */
    else if (request->unanswered > 0)
        code = request->refused == TARRY__CODE__FAILED ? TARRY_FAILED : TARRY_E_TIMEOUT;
    else if (link_is_denied(&client->link))
        code = TARRY_DENIED;
    else if (request->refused != TARRY__CODE__OK)
        code = (int)request->refused;
    else
        code = code_of_unsent(client, made_of(request));
    if (client->closing)
        request_fail(request, TARRY_E_CLOSED, NULL);
    else
        request_fail(request, code, explain(client, request, code));
}

/* ---- expired operations */

static void finish(tarry_client *client, struct request *request) {
    if (request->slot != NULL) slot_release(client, request->slot);
    list_remove(IN_QUEUE, request);
    queue_ungather(client, request);
    timer_clear(&client->retries, &request->retry);
    timer_clear(&client->deadlines, &request->deadline);
    expire(client, request);
    list_append(&client->finished, IN_QUEUE, request);
}

static bool is_due(const struct op_note *note, uint64_t now) {
    return note_deadline(note) <= now;
}

/* Returns a new request that reports the timeout of expired operations to their callers. The commit itself may have
 * been executed and stays under way. */
static struct request *tell(tarry_client *client, struct request *request, uint64_t now) {
    struct request *told = request_new(client, REQUEST_COMMIT);
    if (told == NULL) return NULL;
    for (size_t i = 0; i < request->count; i++) {
        struct op_note *note = &request->notes[i];
        /* The copied note has no lease or name, so it settles nothing and no other operation waits for it. The note of
         * the original request keeps both. */
        struct op_note only = {.done = note->done,
                               .arg = note->arg,
                               .rank = NEEDS_ROOM,
                               .made_ms = note->made_ms,
                               .index = (uint32_t)i,
                               .waits = note->waits,
                               .gate = note->gate};
        if (!is_due(note, now) || request_add_note(told, &only) != TARRY_OK) continue;
        note->done = NULL;
        note->told = true;
        request->told++;
    }
    told->producer = request->producer;
    told->sequence = request->sequence;
    told->unanswered = request->unanswered;
    told->tells = true;
    if (told->count > 0) return told;
    request_free(client, told);
    return NULL;
}

/* Handles a request with single operations, each with its own deadline. */
static void end_due(tarry_client *client, struct request *request, uint64_t now) {
    bool may_be_executed = request->slot != NULL || request->sequence != 0;
    size_t count;
    struct request *part =
        may_be_executed ? tell(client, request, now) : request_divide(client, request, is_due, now, &count);
    if (part != NULL) {
        queue_admit_part(client, part, request);
        finish(client, part);
    }
    uint64_t next_ms = earliest_deadline(request), not_before_ms = now + EXPIRY_STEP_MS;
    if (next_ms != UINT64_MAX)
        timer_set(&client->deadlines, &request->deadline, next_ms > not_before_ms ? next_ms : not_before_ms);
    else
        timer_clear(&client->deadlines, &request->deadline);
}

static bool is_all_due(const struct request *request, uint64_t now) {
    if (request->kind == REQUEST_CALL || request->whole) return true;
    for (size_t i = 0; i < request->count; i++)
        if (!request->notes[i].told && !is_due(&request->notes[i], now)) return false;
    return true;
}

void expiry_step(tarry_client *client, uint64_t now) {
    for (;;) {
        struct timer *timer = timers_first(&client->deadlines);
        if (timer == NULL || timer->at_ms > now) return;
        struct request *request = (struct request *)((char *)timer - offsetof(struct request, deadline));
        if (is_all_due(request, now))
            finish(client, request);
        else
            end_due(client, request, now);
    }
}

static void end_undone(tarry_client *client, struct request_list *list) {
    for (struct request *request = list->first, *next; request != NULL; request = next) {
        next = request->links[IN_QUEUE].next;
        if (request->unanswered == 0) finish(client, request);
    }
}

void expiry_denied(tarry_client *client) {
    for (int rank = 0; rank < COMMIT_RANKS; rank++) {
        queue_close_gathering(client, (enum commit_rank)rank);
        end_undone(client, &client->commits[rank].waiting);
    }
    end_undone(client, &client->calls);
    for (size_t i = 0; i < client->retries.count;) {
        char *timer = (char *)client->retries.items[i];
        struct request *request = (struct request *)(timer - offsetof(struct request, retry));
        if (request->unanswered == 0) {
            finish(client, request);
            i = 0; /* finish has removed a timer from the heap client->retries and moved others, so the loop begins
                      again */
        } else {
            i++;
        }
    }
}

static void end_list(tarry_client *client, struct request_list *list) {
    while (list->first != NULL) finish(client, list->first);
}

void expiry_all(tarry_client *client) {
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (client->slots[i].request != NULL) finish(client, client->slots[i].request);
    end_list(client, &client->resend);
    for (int rank = 0; rank < COMMIT_RANKS; rank++) {
        queue_close_gathering(client, (enum commit_rank)rank);
        end_list(client, &client->commits[rank].waiting);
    }
    end_list(client, &client->calls);
    for (struct timer *timer; (timer = timers_first(&client->retries)) != NULL;)
        finish(client, (struct request *)((char *)timer - offsetof(struct request, retry)));
}
