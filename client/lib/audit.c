/* audit.c: reads the broker's log page by page (tarry_audit.h).
 *
 * At most one request is under way. Its reply arrives on the engine's thread, perhaps after the program has stopped
 * waiting or has closed the audit. So the program and the request both own the struct tarry_audit, and the owner that
 * leaves last frees it. The program's thread unpacks the pages, and verifies all checksums before it uses a page. */
#include "client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "queue_map.h"
#include "row.h"

#define MESSAGE_SIZE 1024u
/* Longest time that a request may wait at the broker for new frames; well below RESEND_AFTER_MS. */
#define POLL_MS 2000u
/* Maximum number of audit requests that wait at the broker at the same time, so that slots remain for other calls. */
#define POLLS_MAX (CALL_SLOTS / 2)
#define POLL_PAUSE_MS 100u /* pause between two requests that found nothing */

struct tarry_audit {
    tarry_client *client;
    /* Options of the program, except the task, which the audit copies to its own field `task`. */
    struct tarry_audit_options options;
    bool has_task;
    struct tarry_ref task;   /* the task of the program's options; `queue` and `key` are the audit's own copies */
    struct queue_map queues; /* names of the queues that the frames refer to by number */
    struct tarry_audit_view view;
    uint64_t end;    /* audit without `follow`: log position at which it ends; 0: not known yet */
    bool is_at_end;  /* the last page said that no more frames were durable */
    bool is_broken;  /* a page was invalid */
    uint64_t ask_ms; /* earliest time of the next request, because the last one found nothing */
    char message[MESSAGE_SIZE];
    /* The current result page and its memory. */
    struct arena arena;
    const Tarry__AuditReply *page; /* NULL: none */
    size_t at;
    struct tarry_frame frame;
    uint8_t chain[FRAME_CHAIN_SIZE]; /* chain hash of the last returned frame; valid if `chained` is set */
    bool is_chained;
    /* The request. */
    pthread_mutex_t lock; /* protects the fields below; not held together with the client's lock */
    pthread_cond_t changed;
    unsigned owners; /* number of owners of this struct: the program and the request under way; the last one frees it */
    unsigned wakes;
    bool is_asked;
    bool is_polling; /* true: client->polls (the number of requests that wait at the broker for new frames) includes the
                        request under way */
    bool is_answered;
    int code;
    char refusal[MESSAGE_SIZE]; /* error message that belongs to `code` */
    Tarry__Reply *reply;        /* in `answer` */
    struct arena answer;
};

/* ---- opening and closing */

static void audit_free(tarry_audit *audit) {
    queue_map_deinit(&audit->queues, free);
    free((char *)audit->task.queue);
    free((char *)audit->task.key);
    arena_deinit(&audit->arena);
    arena_deinit(&audit->answer);
    pthread_cond_destroy(&audit->changed);
    pthread_mutex_destroy(&audit->lock);
    free(audit);
}

/* Removes one owner of the audit. The caller holds the lock, and this function releases it. */
static void leave(tarry_audit *audit) {
    bool is_last = --audit->owners == 0;
    pthread_mutex_unlock(&audit->lock);
    if (is_last) audit_free(audit);
}

static int take_task(tarry_audit *audit, const struct tarry_ref *task) {
    Tarry__Ref checked = TARRY__REF__INIT;
    int rv = ref_to_proto(task, true, &checked);
    if (rv != TARRY_OK) return rv;
    audit->has_task = true;
    audit->task.id = task->id;
    if (task->id != 0) return TARRY_OK;
    audit->task.key_size = checked.key.len;
    audit->task.queue = strdup(task->queue);
    char *key = malloc(checked.key.len + 1);
    audit->task.key = key;
    if (audit->task.queue == NULL || key == NULL) return TARRY_E_NOMEM;
    memcpy(key, checked.key.data, checked.key.len);
    key[checked.key.len] = 0;
    return TARRY_OK;
}

int tarry_audit_open(tarry_client *client, const struct tarry_audit_options *given, tarry_audit **out_audit) {
    struct tarry_audit_options options;
    int rv = OPTIONS_CALL_TAKE(options, given);
    if (rv != TARRY_OK) return rv;
    if (client == NULL || out_audit == NULL || options.call.staleness_ms > INT32_MAX || options.call.timeout_ms != 0)
        return TARRY_E_ARGUMENT;
    if (options.at_end && options.position != 0) return TARRY_E_ARGUMENT;
    rv = may_call(client);
    if (rv != TARRY_OK) return rv;
    tarry_audit *audit = calloc(1, sizeof(*audit));
    if (audit == NULL) return TARRY_E_NOMEM;
    audit->client = client;
    audit->owners = 1;
    pthread_mutex_init(&audit->lock, NULL);
    cond_init_monotonic(&audit->changed);
    arena_init(&audit->arena, 0);
    arena_init(&audit->answer, 0);
    audit->options = options;
    if (audit->options.task != NULL) rv = take_task(audit, audit->options.task);
    audit->options.task = NULL;
    audit->view.position = audit->options.position;
    if (rv == TARRY_OK) {
        *out_audit = audit;
    } else {
        audit_free(audit);
    }
    return rv;
}

void tarry_audit_close(tarry_audit *audit) {
    /* after a fork, the child process must not take the lock or free memory, because both may be in use by a thread of
     * the parent */
    if (audit == NULL || process_is_other(audit->client)) return;
    pthread_mutex_lock(&audit->lock);
    leave(audit);
}

/* ---- asking */

static void end_poll(tarry_audit *audit) {
    pthread_mutex_lock(&audit->client->lock);
    if (audit->is_polling) audit->client->polls--;
    audit->is_polling = false;
    pthread_mutex_unlock(&audit->client->lock);
}

/* Takes over the reply with its memory. Runs on the engine's thread. */
static void answered(void *arg, struct request *request) {
    tarry_audit *audit = arg;
    end_poll(audit);
    pthread_mutex_lock(&audit->lock);
    audit->code = request->code;
    message_copy(audit->refusal, sizeof(audit->refusal), request->message);
    audit->reply = request->reply;
    arena_deinit(&audit->answer);
    audit->answer = request->arena;
    audit->answer.pb.allocator_data = &audit->answer;
    arena_init(&request->arena, REPLY_ARENA_MAX);
    audit->is_answered = true;
    pthread_cond_broadcast(&audit->changed);
    leave(audit);
}

/* Returns how long the broker may keep the request. Client's lock held. */
static uint64_t poll_ms(tarry_audit *audit) {
    tarry_client *client = audit->client;
    if (!audit->options.follow || !audit->is_at_end || client->polls >= POLLS_MAX) return 0;
    /* The broker may keep the request for at most half of the client's timeout, so that its reply comes before the
     * client reports the broker as silent. */
    uint64_t poll_ms = client->timeout_ms / 2 < POLL_MS ? client->timeout_ms / 2 : POLL_MS;
    audit->is_polling = true;
    client->polls++;
    return poll_ms;
}

static int submit(tarry_audit *audit) {
    tarry_client *client = audit->client;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Audit body = TARRY__AUDIT__INIT;
    Tarry__Ref task = TARRY__REF__INIT;
    body.position = audit->view.position;
    body.at_end = audit->options.at_end && body.position == 0;
    body.from_ms = audit->options.from_ms;
    body.to_ms = audit->options.to_ms;
    if (audit->has_task && ref_to_proto(&audit->task, true, &task) == TARRY_OK) body.task = &task;
    wire.body_case = TARRY__REQUEST__BODY_AUDIT;
    wire.audit = &body;
    pthread_mutex_lock(&client->lock);
    struct request *request = client->closing ? NULL : request_new(client, REQUEST_CALL);
    int rv = client->closing ? TARRY_E_CLOSED : request == NULL ? TARRY_E_NOMEM : TARRY_OK;
    if (rv == TARRY_OK) rv = call_wish(client, &wire, &audit->options.call);
    if (rv == TARRY_OK) {
        body.wait_ms = poll_ms(audit);
        rv = request_fill_call(client, request, &wire);
    }
    if (rv == TARRY_OK) {
        request->done = answered;
        request->arg = audit;
        request_submit_call(client, request, true);
    } else {
        if (request != NULL) request_free(client, request);
        if (audit->is_polling) client->polls--;
        audit->is_polling = false;
    }
    pthread_mutex_unlock(&client->lock);
    return rv;
}

static int ask(tarry_audit *audit) {
    pthread_mutex_lock(&audit->lock);
    audit->owners++;
    audit->is_asked = true;
    audit->is_answered = false;
    pthread_mutex_unlock(&audit->lock);
    audit->ask_ms = audit->is_at_end ? now_ms() + POLL_PAUSE_MS : 0;
    int rv = submit(audit);
    if (rv == TARRY_OK) return TARRY_OK;
    pthread_mutex_lock(&audit->lock);
    audit->owners--;
    audit->is_asked = false;
    pthread_mutex_unlock(&audit->lock);
    return rv;
}

/* ---- waiting */

/* If a request is under way, waits for its reply; otherwise waits until the next request may be sent. */
static int await(tarry_audit *audit, uint64_t until_ms) {
    int rv = TARRY_OK;
    pthread_mutex_lock(&audit->lock);
    for (;;) {
        uint64_t now = now_ms(), next_ms = until_ms;
        if (audit->wakes > 0) {
            audit->wakes--;
            rv = TARRY_E_WOKEN;
            break;
        }
        if (audit->is_asked ? audit->is_answered : now >= audit->ask_ms) break;
        if (now >= until_ms) {
            rv = TARRY_E_NOTHING;
            break;
        }
        if (!audit->is_asked && audit->ask_ms < next_ms) next_ms = audit->ask_ms;
        struct timespec until;
        deadline_after(next_ms - now, &until);
        pthread_cond_timedwait(&audit->changed, &audit->lock, &until);
    }
    pthread_mutex_unlock(&audit->lock);
    return rv;
}

void tarry_audit_wake(tarry_audit *audit) {
    if (audit == NULL || process_is_other(audit->client)) return;
    pthread_mutex_lock(&audit->lock);
    audit->wakes++;
    pthread_cond_broadcast(&audit->changed);
    pthread_mutex_unlock(&audit->lock);
}

/* ---- answers */

static int broken(tarry_audit *audit, const char *what) {
    audit->is_broken = true;
    snprintf(audit->message, sizeof(audit->message), "log position %" PRIu64 ": %s", audit->view.position, what);
    return TARRY_E_PROTOCOL;
}

static int learn_queues(tarry_audit *audit, const Tarry__AuditReply *page) {
    for (size_t i = 0; i < page->n_queues; i++) {
        const Tarry__QueueName *queue = page->queues[i];
        if (!queue_number_is_valid(queue->number)) return broken(audit, "a queue number is out of range");
        if (queue_map_get(&audit->queues, queue->number) != NULL) continue;
        if (!queue_map_learn(&audit->queues, queue->number, queue->name)) return TARRY_E_NOMEM;
        audit->view.queues++;
    }
    return TARRY_OK;
}

static int take_gap(tarry_audit *audit, const Tarry__AuditReply *page) {
    uint64_t from = audit->view.position;
    bool is_damage = page->gap_problem[0] != 0;
    snprintf(audit->message, sizeof(audit->message), "the log's positions %" PRIu64 " to %" PRIu64 " %s%s", from,
             page->gap_to, is_damage ? "cannot be read: " : "are no longer in the log or the archive",
             page->gap_problem);
    audit->view.position = page->gap_to;
    audit->view.gaps++;
    audit->view.gaps_damaged += is_damage;
    audit->is_chained = false;
    return TARRY_E_GAP;
}

/* Checks a page that has arrived. TARRY_OK: the frames of the page may be returned. */
static int take_page(tarry_audit *audit, const Tarry__AuditReply *page) {
    struct tarry_audit_view *view = &audit->view;
    if (page->next < view->position || page->next > page->durable || page->gap_to > page->next)
        return broken(audit, "the result page begins before the requested position or ends after the durable position");
    bool is_stuck = page->n_frames == 0 && !page->end && page->next == view->position;
    if (is_stuck) return broken(audit, "the result page is empty but announces more records");
    int rv = learn_queues(audit, page);
    if (rv != TARRY_OK) return rv;
    if (audit->end == 0) audit->end = page->durable;
    audit->is_at_end = page->end;
    /* If the broker has more frames, requests the next page without a pause. */
    if (page->n_frames > 0 || !page->end) audit->ask_ms = 0;
    view->log_start = page->log_start;
    view->durable = page->durable;
    view->segments_read += page->segments_read;
    view->segments_skipped += page->segments_skipped;
    if (page->gap_to > view->position && page->n_frames == 0) return take_gap(audit, page);
    return TARRY_OK;
}

static void end_page(tarry_audit *audit) {
    audit->view.position = audit->page->next;
    audit->page = NULL;
    arena_deinit(&audit->arena);
    arena_init(&audit->arena, 0);
}

static int take_answer(tarry_audit *audit) {
    pthread_mutex_lock(&audit->lock);
    audit->is_asked = false;
    int rv = audit->code;
    if (rv != TARRY_OK) message_copy(audit->message, sizeof(audit->message), audit->refusal);
    Tarry__Reply *reply = audit->reply;
    audit->reply = NULL;
    arena_deinit(&audit->arena);
    audit->arena = audit->answer;
    audit->arena.pb.allocator_data = &audit->arena;
    arena_init(&audit->answer, 0);
    pthread_mutex_unlock(&audit->lock);
    if (rv != TARRY_OK) return rv;
    audit->view.source = source_of(reply);
    if (reply->body_case != TARRY__REPLY__BODY_AUDIT) return broken(audit, tarry_code_sentence(TARRY_E_PROTOCOL));
    rv = take_page(audit, reply->audit);
    if (rv == TARRY_E_NOMEM) message_copy(audit->message, sizeof(audit->message), tarry_code_sentence(rv));
    if (rv != TARRY_OK) return rv;
    audit->page = reply->audit;
    audit->at = 0;
    return TARRY_OK;
}

/* ---- frames */

static const char *check_frame(const tarry_audit *audit, const Tarry__AuditFrame *frame, struct frame_header *out) {
    if (frame->header.len != FRAME_HEADER_SIZE || !frame_header_decode(frame->header.data, out))
        return "the frame's header is wrong";
    if (out->body_size != frame->body.len) return "the size of the frame's body differs from its header";
    if (out->body_sum != frame_sum(frame->body.data, frame->body.len)) return "the frame's body has a wrong checksum";
    if (out->position < audit->view.position) return "the frames are out of order";
    if (out->position + frame_size(out->body_size, out->blob_size) > audit->page->next)
        return "the frame is outside its result page";
    if (!audit->is_chained || out->position != audit->frame.end) return NULL;
    uint8_t chain[FRAME_CHAIN_SIZE];
    frame_chain(audit->chain, out, frame->body.data, chain);
    return memcmp(chain, out->chain, sizeof(chain)) == 0 ? NULL : "the hash chain is broken here";
}

/* Returns the next frame of the page. */
static int take_frame(tarry_audit *audit, const struct tarry_frame **out_frame) {
    const Tarry__AuditFrame *frame = audit->page->frames[audit->at];
    struct frame_header header;
    const char *problem = check_frame(audit, frame, &header);
    if (problem != NULL) return broken(audit, problem);
    audit->at++;
    memcpy(audit->chain, header.chain, sizeof(audit->chain));
    audit->is_chained = true;
    audit->frame = (struct tarry_frame){
        .position = header.position,
        .end = header.position + frame_size(header.body_size, header.blob_size),
        .epoch = header.epoch,
        .steady_ns = header.steady_ns,
        .wall_ns = header.wall_ns,
        .chain = audit->chain,
        .header = frame->header.data,
        .header_size = frame->header.len,
        .body = frame->body.data,
        .body_size = frame->body.len,
    };
    audit->view.position = audit->frame.end;
    *out_frame = &audit->frame;
    return TARRY_OK;
}

static bool is_over(const tarry_audit *audit) {
    return !audit->options.follow && audit->end != 0 && audit->view.position >= audit->end;
}

/* Stores the next frame in *out_frame and returns TARRY_OK. With any other code no frame came, and audit->message has
 * the reason or is empty. */
static int next_frame(tarry_audit *audit, uint64_t wait_ms, const struct tarry_frame **out_frame) {
    uint64_t now = now_ms();
    uint64_t until_ms = wait_ms > UINT64_MAX - now ? UINT64_MAX : now + wait_ms;
    audit->message[0] = 0;
    for (;;) {
        if (audit->page != NULL) {
            if (is_over(audit)) return TARRY_E_END;
            if (audit->at < audit->page->n_frames) return take_frame(audit, out_frame);
            end_page(audit);
        }
        if (is_over(audit)) return TARRY_E_END;
        int rv = await(audit, until_ms);
        if (rv == TARRY_OK) rv = audit->is_asked ? take_answer(audit) : ask(audit);
        if (rv != TARRY_OK) return rv;
    }
}

int tarry_audit_next(tarry_audit *audit, uint64_t wait_ms, const struct tarry_frame **out_frame,
                     char out_message[TARRY_MESSAGE_SIZE]) {
    int rv = audit == NULL || out_frame == NULL ? TARRY_E_ARGUMENT : TARRY_OK;
    if (rv == TARRY_OK) rv = may_block(audit->client);
    bool is_broken = rv == TARRY_OK && audit->is_broken;
    if (is_broken) rv = TARRY_E_PROTOCOL;
    const char *message = "";
    if (rv == TARRY_OK) {
        rv = next_frame(audit, wait_ms, out_frame);
        message = audit->message;
    }
    message_set(out_message, rv != TARRY_OK && message[0] == 0 ? tarry_code_sentence(rv) : message);
    return rv;
}

const char *tarry_audit_queue(const tarry_audit *audit, uint32_t number) {
    return audit != NULL ? queue_map_get(&audit->queues, number) : NULL;
}

void tarry_audit_look(const tarry_audit *audit, struct tarry_audit_view *out_view) {
    if (audit != NULL && out_view != NULL) *out_view = audit->view;
}
