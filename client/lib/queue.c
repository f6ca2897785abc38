/* queue.c: order of commits, and which may be sent before older ones while the broker is busy.
 *
 *   submitted ─► queue ─► slot ─► answered
 *                 ▲  ▲      │
 *                 │  └──────┤ refused: not executed, so the commit loses its sequence and returns to its place
 *              resend ◄─────┘ outcome unknown: the commit keeps its sequence and is sent before all others
 *
 * All commits wait in one queue, in order of submission, until the broker replies BUSY: its disk or memory is full,
 * or its index lags. The broker reserves capacity for operations that end tasks and leases, but it refuses a commit
 * as a whole (CAP-1). So from then on the client collects the operations of each rank (enum commit_rank) in separate
 * commits, and divides waiting commits. Acks and other settlements get their own commits, and so do cancels and moves,
 * so that no other operation causes their refusal. A cancel or move is not sent before an older operation that names
 * the same task. Once the broker has accepted the refused commits, all operations share commits again.
 *
 * A commit that the program built is never divided. */
#include "client.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* ---- ranks of operations */

struct op_note note_settles(uint64_t id, struct tarry_token token) {
    return (struct op_note){.settles = id, .token = token, .rank = SETTLES};
}

struct op_note note_extends(void) {
    return (struct op_note){.rank = SETTLES};
}

static uint32_t name_of(const char *queue, const char *key, size_t key_size) {
    if (queue == NULL || key == NULL) return 0;
    size_t size = key_size != 0 ? key_size : strlen(key);
    return size > 0 ? name_of_key(queue, key, size) : 0;
}

struct op_note note_of_ref(const struct tarry_ref *ref) {
    struct op_note note = {.rank = NEEDS_ROOM};
    if (ref != NULL) note.name = ref->id != 0 ? name_of_id(ref->id) : name_of(ref->queue, ref->key, ref->key_size);
    return note;
}

struct op_note note_changes(const struct tarry_ref *ref) {
    struct op_note note = note_of_ref(ref);
    note.rank = CHANGES;
    return note;
}

struct op_note note_schedules(const struct tarry_schedule_options *options) {
    struct op_note note = {.rank = NEEDS_ROOM};
    if (options != NULL) note.name = name_of(options->queue, options->key, options->key_size);
    return note;
}

struct op_note note_other(bool alone) {
    return (struct op_note){.rank = NEEDS_ROOM, .alone = alone};
}

/* ---- coming */

int queue_wait_for_room(tarry_client *client, size_t size, bool wait, uint64_t until_ms) {
    while (!client->closing && client->queued_size > 0 && client->queued_size + size > client->queued_size_max) {
        if (!wait || !wait_drained(client, until_ms)) return client->closing ? TARRY_E_CLOSED : TARRY_E_FULL;
    }
    return client->closing ? TARRY_E_CLOSED : TARRY_OK;
}

/* Returns whether the client collects the operations of each rank in a separate request: while the broker replies BUSY
 * to any rank. */
static bool is_apart(const tarry_client *client) {
    for (int rank = 0; rank < COMMIT_RANKS; rank++)
        if (client->commits[rank].busy) return true;
    return false;
}

/* Returns true if a waiting operation of rank NEEDS_ROOM names the same task as this cancel or move. The cancel or move
 * may then not be sent before that operation. */
static bool is_held_up(const tarry_client *client, const struct op_note *note) {
    return note->rank == CHANGES && note->name != 0 && names_has(&client->names, note->name);
}

enum commit_rank queue_of(const tarry_client *client, struct op_note *note) {
    if (!is_apart(client)) return NEEDS_ROOM;
    if (is_held_up(client, note)) note->rank = NEEDS_ROOM;
    return (enum commit_rank)note->rank;
}

void queue_close_gathering(tarry_client *client, enum commit_rank rank) {
    struct commit_queue *queue = &client->commits[rank];
    if (queue->gathering == NULL) return;
    list_append(&queue->waiting, IN_QUEUE, queue->gathering);
    queue->gathering = NULL;
}

/* Returns the request that collects operations of this rank. NULL if it was begun before is_apart changed: it could
 * otherwise have operations from before and after the change, in a wrong order. */
struct request *queue_gathering(tarry_client *client, enum commit_rank rank) {
    struct request *gathering = client->commits[rank].gathering;
    if (gathering == NULL || gathering->count >= OPS_PER_COMMIT_MAX || gathering->body.size >= BATCH_SIZE_MAX)
        return NULL;
    return gathering->apart == is_apart(client) ? gathering : NULL;
}

struct request *queue_gather(tarry_client *client, enum commit_rank rank) {
    struct request *request = request_new(client, REQUEST_COMMIT);
    if (request == NULL) return NULL;
    queue_close_gathering(client, rank);
    request->rank = rank;
    request->order = client->next_order + 1;
    request->apart = is_apart(client);
    request->gate = (uint8_t)(client->next_gate++ % GATES);
    client->commits[rank].gathering = request;
    return request;
}

/* Puts a waiting request into the lists that its operations require. */
static void relist(tarry_client *client, struct request *request) {
    if (request->of_rank[SETTLES] == 0) {
        list_remove(AMONG_SETTLING, request);
    } else if (request->links[AMONG_SETTLING].list == NULL) {
        request->settling = ++client->next_settling;
        list_append(&client->settling, AMONG_SETTLING, request);
    }
    bool is_mixed = request->rank == NEEDS_ROOM && request->slot == NULL && request->sequence == 0 &&
                    request->of_rank[SETTLES] + request->of_rank[CHANGES] > 0;
    bool was_mixed = request->links[AMONG_MIXED].list != NULL;
    if (is_mixed && !was_mixed) list_append(&client->mixed, AMONG_MIXED, request);
    if (!is_mixed && was_mixed) list_remove(AMONG_MIXED, request);
}

static void count_in(tarry_client *client, struct request *request) {
    if (client->waiting++ == 0) client->waiting_since_ms = now_ms();
    client->commits[request->rank].count++;
}

static void admit_name(tarry_client *client, const struct op_note *note) {
    if (note->rank == NEEDS_ROOM && note->name != 0) names_add(&client->names, note->name);
}

void queue_admit(tarry_client *client, struct request *request, const struct op_note *note) {
    if (request->count == 1) count_in(client, request);
    client->queued_size += note->size;
    client->pending++;
    request->last_order = ++client->next_order;
    admit_name(client, note);
    relist(client, request);
}

/* Gives a cancel or move the rank NEEDS_ROOM, so that it is not sent before older operations. Records the name of its
 * task, so that later operations on the task are not sent before it either. */
static void stay(tarry_client *client, struct request *request, struct op_note *note) {
    if (note->rank != CHANGES) return;
    request->of_rank[CHANGES]--;
    request->of_rank[NEEDS_ROOM]++;
    note->rank = NEEDS_ROOM;
    admit_name(client, note);
}

static void stay_whole(tarry_client *client, struct request *request) {
    for (size_t i = 0; i < request->count && request->of_rank[CHANGES] > 0; i++)
        stay(client, request, &request->notes[i]);
}

/* Returns the rank of the whole request: that of its most demanding operation. */
static enum commit_rank rank_of_whole(const tarry_client *client, struct request *request) {
    for (size_t i = 0; i < request->count && request->of_rank[CHANGES] > 0; i++)
        if (is_held_up(client, &request->notes[i])) return NEEDS_ROOM;
    if (request->of_rank[NEEDS_ROOM] > 0) return NEEDS_ROOM;
    return request->of_rank[CHANGES] > 0 ? CHANGES : SETTLES;
}

void queue_admit_whole(tarry_client *client, struct request *request) {
    request->rank = is_apart(client) ? rank_of_whole(client, request) : NEEDS_ROOM;
    request->order = request->last_order = ++client->next_order;
    count_in(client, request);
    client->queued_size += request->body.size;
    client->pending += request->count;
    for (size_t i = 0; i < request->count; i++) admit_name(client, &request->notes[i]);
    if (request->rank == NEEDS_ROOM && is_apart(client)) stay_whole(client, request);
    queue_close_gathering(client, request->rank);
    list_append(&client->commits[request->rank].waiting, IN_QUEUE, request);
    relist(client, request);
}

void queue_admit_part(tarry_client *client, struct request *part, struct request *of) {
    part->rank = of->rank;
    part->order = of->order;
    part->last_order = of->last_order;
    part->refused = of->refused;
    count_in(client, part);
    /* A caller that waits for the original request's settlements must also wait for those in `part`. */
    if (part->of_rank[SETTLES] > 0) {
        part->settling = of->settling;
        list_insert(&client->settling, AMONG_SETTLING, of->links[AMONG_SETTLING].previous, part);
    }
    relist(client, part);
    relist(client, of);
}

/* ---- going */

void queue_ungather(tarry_client *client, struct request *request) {
    struct commit_queue *queue = &client->commits[request->rank];
    if (queue->gathering == request) queue->gathering = NULL;
}

void queue_forget(tarry_client *client, struct request *request) {
    struct commit_queue *queue = &client->commits[request->rank];
    for (size_t i = 0; i < request->count; i++)
        if (request->notes[i].rank == NEEDS_ROOM && request->notes[i].name != 0)
            names_remove(&client->names, request->notes[i].name);
    list_remove(AMONG_MIXED, request);
    list_remove(AMONG_SETTLING, request);
    assert(queue->count > 0);
    if (--queue->count == 0) queue_wake(queue);
}

uint64_t oldest_unanswered(tarry_client *client, uint64_t producer, uint64_t sequence) {
    uint64_t oldest = sequence;
    for (const struct request *at = client->resend.first; at != NULL; at = at->links[IN_QUEUE].next) {
        client->looks++;
        if (at->producer == producer && at->sequence < oldest) oldest = at->sequence;
    }
    for (uint32_t i = 0; i < COMMITS_IN_FLIGHT_MAX; i++) {
        const struct request *sent = client->slots[i].request;
        if (sent != NULL && sent->producer == producer && sent->sequence < oldest) oldest = sent->sequence;
    }
    return oldest;
}

/* Returns whether a new commit may get a sequence. The broker remembers a limited number of sequences, counted from the
 * oldest unanswered one. If newer commits used all of them, the broker would refuse the oldest commit for ever. */
static bool window_is_open(tarry_client *client) {
    uint64_t next = client->next_sequence;
    return client->producer == 0 || next - oldest_unanswered(client, client->producer, next) < COMMITS_PER_PRODUCER_MAX;
}

static bool has_one(const struct commit_queue *queue) {
    return queue->waiting.first != NULL || queue->gathering != NULL;
}

static struct request *take(tarry_client *client, enum commit_rank rank) {
    struct commit_queue *queue = &client->commits[rank];
    if (queue->waiting.first == NULL) queue_close_gathering(client, rank);
    struct request *request = queue->waiting.first;
    list_remove(IN_QUEUE, request);
    list_remove(AMONG_MIXED, request);
    client->looks++;
    return request;
}

/* Returns a commit that must be sent again because it may have been executed. If such a commit must wait, sets
 * *out_from: commits of this rank and of higher ranks must wait, too. */
static struct request *next_resend(tarry_client *client, uint64_t now, enum commit_rank *out_from) {
    for (struct request *at = client->resend.first; at != NULL; at = at->links[IN_QUEUE].next) {
        client->looks++;
        if (at->retry_at_ms <= now) {
            list_remove(IN_QUEUE, at);
            return at;
        }
        /* with several commits in flight the library promises no order, so this commit delays no other */
        if (client->commits_in_flight > 1) continue;
        enum commit_rank from = at->refused == TARRY__CODE__BUSY ? at->rank : SETTLES;
        if (from < *out_from) *out_from = from;
    }
    return NULL;
}

/* Returns whether the next commit of rank NEEDS_ROOM must wait, because an older cancel or move waits. (A schedule must
 * not be sent before an older cancel or move of its task.) Closes that next commit for more operations, because newer
 * ones could delay it for ever. */
static bool must_wait_for_changes(tarry_client *client) {
    const struct commit_queue *changes = &client->commits[CHANGES], *needs_room = &client->commits[NEEDS_ROOM];
    if (!has_one(changes)) return false;
    if (needs_room->waiting.first == NULL) queue_close_gathering(client, NEEDS_ROOM);
    const struct request *change = changes->waiting.first != NULL ? changes->waiting.first : changes->gathering;
    return change->order < needs_room->waiting.first->last_order;
}

struct request *queue_next(tarry_client *client, uint64_t now, bool with_new) {
    enum commit_rank blocked_from = COMMIT_RANKS;
    struct request *request = next_resend(client, now, &blocked_from);
    if (request != NULL || !with_new || !window_is_open(client)) return request;
    /* First looks for a rank that was refused before and whose time to retry has come. Otherwise other ranks could
     * delay it for ever. */
    for (int refused_first = 1; refused_first >= 0; refused_first--) {
        for (int rank = 0; rank < (int)blocked_from; rank++) {
            const struct commit_queue *queue = &client->commits[rank];
            if (!has_one(queue) || now < queue->retry_at_ms || (refused_first && queue->backoff_ms == 0)) continue;
            if (rank == NEEDS_ROOM && must_wait_for_changes(client)) continue;
            return take(client, (enum commit_rank)rank);
        }
    }
    return NULL;
}

const struct request *queue_plain_next(const tarry_client *client) {
    const struct commit_queue *queue = &client->commits[NEEDS_ROOM];
    if (client->resend.first != NULL || has_one(&client->commits[SETTLES]) || has_one(&client->commits[CHANGES]))
        return NULL;
    for (int rank = 0; rank < COMMIT_RANKS; rank++)
        if (client->commits[rank].backoff_ms != 0) return NULL;
    return queue->waiting.first != NULL ? queue->waiting.first : queue->gathering;
}

bool queue_is_empty(const tarry_client *client) {
    for (int rank = 0; rank < COMMIT_RANKS; rank++)
        if (has_one(&client->commits[rank])) return false;
    return client->resend.first == NULL;
}

uint64_t queue_deadline(tarry_client *client, uint64_t now) {
    uint64_t deadline = UINT64_MAX;
    for (const struct request *at = client->resend.first; at != NULL; at = at->links[IN_QUEUE].next) {
        client->looks++;
        if (at->retry_at_ms > now && at->retry_at_ms < deadline) deadline = at->retry_at_ms;
    }
    for (int rank = 0; rank < COMMIT_RANKS; rank++) {
        const struct commit_queue *queue = &client->commits[rank];
        if (has_one(queue) && queue->retry_at_ms > now && queue->retry_at_ms < deadline) deadline = queue->retry_at_ms;
    }
    return deadline;
}

/* ---- coming back */

/* Inserts the request by sequence, or by order of submission. The search starts at the front and passes only requests
 * that were put back before. */
void queue_put_back(tarry_client *client, struct request *request) {
    bool is_sent = request->sequence != 0;
    struct request_list *list = is_sent ? &client->resend : &client->commits[request->rank].waiting;
    struct request *previous = NULL;
    for (struct request *at = list->first; at != NULL; at = at->links[IN_QUEUE].next) {
        client->looks++;
        if (is_sent ? at->sequence > request->sequence : at->order > request->order) break;
        previous = at;
    }
    list_insert(list, IN_QUEUE, previous, request);
    relist(client, request);
}

static bool is_of_rank(const struct op_note *note, uint64_t rank) {
    return note->rank == rank;
}

static void move(tarry_client *client, struct request *request, enum commit_rank rank) {
    client->commits[request->rank].count--;
    client->commits[rank].count++;
    request->rank = rank;
    list_remove(IN_QUEUE, request);
    queue_close_gathering(client, rank);
    /* Usually the request is newer than all waiting ones, so the search begins at the end. */
    struct request *previous = client->commits[rank].waiting.last;
    while (previous != NULL && previous->order > request->order) previous = previous->links[IN_QUEUE].previous;
    list_insert(&client->commits[rank].waiting, IN_QUEUE, previous, request);
    relist(client, request);
}

/* Calls stay for each cancel and move that may not be sent before an older operation on its task. The change of rank is
 * permanent. */
static void hold_up(tarry_client *client, struct request *request) {
    for (size_t i = 0; i < request->count && request->of_rank[CHANGES] > 0; i++)
        if (is_held_up(client, &request->notes[i])) stay(client, request, &request->notes[i]);
}

/* Divides a request by rank. False: out of memory; the undivided rest is sent together. */
static bool divide(tarry_client *client, struct request *request) {
    hold_up(client, request);
    for (int rank = SETTLES; rank < NEEDS_ROOM; rank++) {
        size_t count;
        struct request *part = request_divide(client, request, is_of_rank, (uint64_t)rank, &count);
        if (count == 0) continue;
        if (count == request->count && part == NULL) {
            move(client, request, (enum commit_rank)rank);
            break;
        }
        if (part == NULL) return false;
        queue_admit_part(client, part, request);
        list_insert(&client->commits[NEEDS_ROOM].waiting, IN_QUEUE, request, part);
        move(client, part, (enum commit_rank)rank);
        expiry_watch_notes(client, part);
    }
    relist(client, request);
    expiry_watch_notes(client, request);
    return true;
}

static void move_whole(tarry_client *client, struct request *request) {
    enum commit_rank rank = rank_of_whole(client, request);
    if (rank == NEEDS_ROOM) {
        stay_whole(client, request);
        list_remove(AMONG_MIXED, request);
    } else {
        move(client, request, rank);
    }
}

/* Divides the waiting requests by rank. Each operation is examined once, because requests that need no division leave
 * the list `mixed`. */
static void part(tarry_client *client) {
    queue_close_gathering(client, NEEDS_ROOM);
    for (struct request *at = client->mixed.first, *next; at != NULL; at = next) {
        next = at->links[AMONG_MIXED].next;
        client->looks++;
        if (at->whole)
            move_whole(client, at);
        else if (!divide(client, at))
            return;
    }
}

void queue_rest(tarry_client *client, struct request *request, bool busy, uint64_t now) {
    struct commit_queue *queue = &client->commits[request->rank];
    queue->backoff_ms = queue->backoff_ms == 0 ? RETRY_BACKOFF_MIN_MS : queue->backoff_ms * 2;
    if (queue->backoff_ms > RETRY_BACKOFF_MAX_MS) queue->backoff_ms = RETRY_BACKOFF_MAX_MS;
    queue->retry_at_ms = now + queue->backoff_ms;
    if (busy && queue->busy_since_ms == 0) queue->busy_since_ms = now;
    queue->busy = busy;
    /* A stopping broker refuses all commits, so only BUSY makes requests divide by rank. */
    for (int rank = 0; rank < COMMIT_RANKS && !busy; rank++)
        if (client->commits[rank].retry_at_ms < queue->retry_at_ms)
            client->commits[rank].retry_at_ms = queue->retry_at_ms;
    /* A commit with a sequence may have been executed, so it cannot be divided. */
    if (busy && request->sequence != 0) stay_whole(client, request);
    if (busy) part(client);
}

void queue_wake(struct commit_queue *queue) {
    queue->busy = false;
    queue->backoff_ms = 0;
    queue->busy_since_ms = queue->retry_at_ms = 0;
}

void queue_forget_refusals(tarry_client *client) {
    for (int rank = 0; rank < COMMIT_RANKS; rank++) queue_wake(&client->commits[rank]);
    for (struct request *at = client->resend.first; at != NULL; at = at->links[IN_QUEUE].next)
        at->retry_at_ms = at->backoff_ms = 0;
    for (struct timer *timer; (timer = timers_first(&client->retries)) != NULL;) {
        timer_clear(&client->retries, timer);
        list_append(&client->calls, IN_QUEUE, (struct request *)((char *)timer - offsetof(struct request, retry)));
    }
}
