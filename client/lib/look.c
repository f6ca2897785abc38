/* look.c: read requests for tasks, queues, statistics, jobs, recurrences and the calendar. Each result is a plain
 * struct in one arena. */
#include <stdlib.h>
#include <string.h>

#include "client.h"

/* The program's struct is the first member, so its address is also that of the arena. */
struct view_box {
    struct tarry_view view;
    struct arena arena;
};

static int fill_content(struct arena *arena, ProtobufCBinaryData packed, struct tarry_view *out) {
    Tarry__Content *content = tarry__content__unpack(&arena->pb, packed.len, packed.data);
    if (content == NULL) return TARRY_E_PROTOCOL;
    struct tarry_attribute *attributes = arena_alloc(arena, (content->n_attributes + 1) * sizeof(*attributes));
    if (attributes == NULL) return TARRY_E_NOMEM;
    for (size_t i = 0; i < content->n_attributes; i++)
        attributes[i] = (struct tarry_attribute){content->attributes[i]->name, content->attributes[i]->value};
    out->attributes = attributes;
    out->attribute_count = content->n_attributes;
    if (content->payload.len > 0) out->payload = content->payload.data;
    out->payload_size = content->payload.len;
    if (content->properties.len > 0) out->properties = content->properties.data;
    out->properties_size = content->properties.len;
    return TARRY_OK;
}

static enum tarry_outcome outcome_of_state(const char *state) {
    static const struct {
        const char *state;
        enum tarry_outcome outcome;
    } states[] = {{"pending", TARRY_PENDING}, {"ready", TARRY_PENDING},  {"in_flight", TARRY_IN_FLIGHT},
                  {"dead", TARRY_DEAD},       {"acked", TARRY_ACKED},    {"cancelled", TARRY_CANCELLED},
                  {"expired", TARRY_EXPIRED}, {"dropped", TARRY_DROPPED}};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (strcmp(states[i].state, state) == 0) return states[i].outcome;
    return TARRY_UNKNOWN;
}

/* Copies a text with a final 0. The copy of an empty text is NULL. Returns false if memory is used up. */
static bool text_of(struct arena *arena, const ProtobufCBinaryData *from, const char **out) {
    if (from->len == 0) return true;
    char *text = arena_alloc(arena, from->len + 1);
    if (text == NULL) return false;
    memcpy(text, from->data, from->len);
    text[from->len] = 0;
    *out = text;
    return true;
}

/* Converts a task. `out` borrows from `from` and from the arena. */
static int fill_view(struct arena *arena, const Tarry__TaskView *from, bool with_content, struct tarry_view *out) {
    *out = (struct tarry_view){
        .id = from->id,
        .queue = from->queue,
        .state = from->state,
        .due_ms = from->due_ms,
        .absolute = from->absolute,
        .priority = from->priority,
        .attempt = from->attempt,
        .deliveries = from->deliveries,
        .scheduled_ms = from->scheduled_ms,
        .expires_ms = from->expires_ms,
        .delivered_ms = from->delivered_ms,
        .session = from->session,
        .lease_deadline_ms = from->lease_deadline_ms,
        .dead_ms = from->dead_ms,
        .reason = from->reason,
        .ended_ms = from->ended_ms,
        .key_size = from->key.len,
        .payload = "",
        .has_content = with_content && from->ended_ms == 0,
        .redacted = from->redacted,
        .spread_ms = from->spread_ms,
        .max_attempts = from->max_attempts,
        .backoff_ms = from->backoff_ms,
        .lease_ms = from->lease_ms,
    };
    if (from->n_shares > 0) {
        struct tarry_share *shares = arena_alloc(arena, from->n_shares * sizeof(*shares));
        if (shares == NULL) return TARRY_E_NOMEM;
        for (size_t i = 0; i < from->n_shares; i++) {
            const Tarry__ShareView *share = from->shares[i];
            shares[i] = (struct tarry_share){share->queue,      share->id,           share->state,   share->attempt,
                                             share->deliveries, share->delivered_ms, share->ended_ms};
        }
        out->shares = shares;
        out->share_count = from->n_shares;
    }
    if (from->token != NULL) out->token = (struct tarry_token){from->token->epoch, from->token->position};
    if (!text_of(arena, &from->key, &out->key) || !text_of(arena, &from->serial, &out->serial)) return TARRY_E_NOMEM;
    return out->has_content ? fill_content(arena, from->content, out) : TARRY_OK;
}

/* ---- get */

/* Copies the options, and writes them into `wire`. */
static int take_wish(const tarry_client *client, struct tarry_call *out, const struct tarry_call *given,
                     Tarry__Request *wire, char out_message[TARRY_MESSAGE_SIZE]) {
    int rv = OPTIONS_TAKE(*out, given);
    if (rv == TARRY_OK) rv = call_wish(client, wire, out);
    return rv == TARRY_OK ? rv : message_say(out_message, rv);
}

int tarry_get(tarry_client *client, const struct tarry_ref *ref, bool with_content, const struct tarry_call *given,
              struct tarry_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    Tarry__Ref task;
    if (client == NULL || out_view == NULL || ref_to_proto(ref, true, &task) != TARRY_OK)
        return message_say(out_message, TARRY_E_ARGUMENT);
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    get.task = &task;
    get.with_content = with_content;
    wire.body_case = TARRY__REQUEST__BODY_GET;
    wire.get = &get;
    struct call call;
    struct view_box *box = NULL;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv != TARRY_OK) goto out;
    if (call.reply->body_case != TARRY__REPLY__BODY_GET) {
        rv = message_say(out_message, TARRY_E_PROTOCOL);
        goto out;
    }
    box = calloc(1, sizeof(*box));
    if (box == NULL) {
        rv = message_say(out_message, TARRY_E_NOMEM);
        goto out;
    }
    const Tarry__TaskReply *reply = call.reply->get;
    const struct tarry_source source = source_of(call.reply);
    call_keep(&call, &box->arena);
    box->view = (struct tarry_view){.queue = "", .state = "", .reason = "", .payload = ""};
    if (reply->task != NULL) rv = fill_view(&box->arena, reply->task, with_content, &box->view);
    box->view.outcome = (enum tarry_outcome)reply->outcome;
    box->view.known_since_ms = reply->known_since_ms;
    box->view.source = source;
    if (rv == TARRY_OK) {
        *out_view = &box->view;
    } else {
        tarry_view_free(&box->view);
        message_say(out_message, rv);
    }
out:
    call_end(&call);
    return rv;
}

void tarry_view_free(struct tarry_view *view) {
    if (view == NULL) return;
    struct view_box *box = (struct view_box *)view;
    arena_deinit(&box->arena);
    free(box);
}

/* ---- list */

struct tarry_list {
    tarry_client *client;
    char *queue;
    struct tarry_list_options options; /* the list owns queue and prefix */
    uint64_t left;                     /* number of tasks still to list; UINT64_MAX: no limit */
    struct call page;
    bool has_page;   /* the broker has answered the last request for a page, so `page` is valid */
    size_t at;       /* index in the page */
    uint8_t *cursor; /* cursor from which the next page begins */
    size_t cursor_size;
    struct tarry_view view;
};

int tarry_list_open(tarry_client *client, const struct tarry_list_options *given, tarry_list **out_list) {
    struct tarry_list_options taken;
    const struct tarry_list_options *options = &taken;
    int rv = OPTIONS_CALL_TAKE(taken, given);
    if (rv != TARRY_OK) return rv;
    if (client == NULL || options->queue == NULL || out_list == NULL) return TARRY_E_ARGUMENT;
    const uint32_t all = TARRY_STATE_PENDING | TARRY_STATE_READY | TARRY_STATE_IN_FLIGHT | TARRY_STATE_DEAD;
    if (options->call.staleness_ms > INT32_MAX) return TARRY_E_ARGUMENT;
    if ((options->states & ~all) != 0 || (options->prefix == NULL && options->prefix_size != 0))
        return TARRY_E_ARGUMENT;
    rv = may_call(client);
    if (rv != TARRY_OK) return rv;
    tarry_list *list = calloc(1, sizeof(*list));
    if (list == NULL) return TARRY_E_NOMEM;
    list->client = client;
    list->options = *options;
    list->left = options->limit == 0 ? UINT64_MAX : options->limit;
    if (options->prefix != NULL && options->prefix_size == 0) list->options.prefix_size = strlen(options->prefix);
    /* Queue and prefix are stored one after the other. */
    size_t queue_size = strlen(options->queue) + 1;
    list->queue = malloc(queue_size + list->options.prefix_size);
    if (list->queue == NULL) {
        free(list);
        return TARRY_E_NOMEM;
    }
    memcpy(list->queue, options->queue, queue_size);
    if (options->prefix != NULL) memcpy(list->queue + queue_size, options->prefix, list->options.prefix_size);
    list->options.queue = list->queue;
    list->options.prefix = list->queue + queue_size;
    *out_list = list;
    return TARRY_OK;
}

/* Requests the next page. After a failure the list stays where it is, and the next call requests the same page
 * again. */
static int list_fetch(tarry_list *list, char out_message[TARRY_MESSAGE_SIZE]) {
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__List body = TARRY__LIST__INIT;
    body.queue = list->queue;
    body.states = list->options.states;
    body.due_from_ms = list->options.due_from_ms;
    body.due_to_ms = list->options.due_to_ms;
    body.prefix = (ProtobufCBinaryData){list->options.prefix_size, (uint8_t *)list->options.prefix};
    body.limit = list->left < LIST_LIMIT_MAX ? (uint32_t)list->left : LIST_LIMIT_MAX;
    body.cursor = (ProtobufCBinaryData){list->cursor_size, list->cursor};
    wire.body_case = TARRY__REQUEST__BODY_LIST;
    wire.list = &body;
    if (list->has_page) call_end(&list->page);
    list->has_page = false;
    int rv = call_wish(list->client, &wire, &list->options.call);
    if (rv == TARRY_OK)
        rv = call_run_within(list->client, &wire, timeout_of(list->options.call.timeout_ms), &list->page, out_message);
    if (rv == TARRY_OK && list->page.reply->body_case != TARRY__REPLY__BODY_LIST)
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    const Tarry__ListReply *reply = rv == TARRY_OK ? list->page.reply->list : NULL;
    uint8_t *cursor = reply != NULL ? malloc(reply->next.len + 1) : NULL;
    if (cursor == NULL) {
        if (reply != NULL) rv = message_say(out_message, TARRY_E_NOMEM);
        call_end(&list->page);
        return rv;
    }
    if (reply->next.data != NULL) memcpy(cursor, reply->next.data, reply->next.len);
    free(list->cursor);
    list->cursor = cursor;
    list->cursor_size = reply->next.len;
    list->at = 0;
    list->has_page = true;
    return TARRY_OK;
}

int tarry_list_next(tarry_list *list, const struct tarry_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    if (list == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    if (list->left == 0) return message_say(out_message, TARRY_E_END);
    while (!list->has_page || list->at == list->page.reply->list->n_tasks) {
        if (list->has_page && list->cursor_size == 0) return message_say(out_message, TARRY_E_END);
        int rv = list_fetch(list, out_message);
        if (rv != TARRY_OK) return rv;
    }
    int rv = fill_view(&list->page.arena, list->page.reply->list->tasks[list->at], false, &list->view);
    if (rv != TARRY_OK) return message_say(out_message, rv);
    list->view.outcome = outcome_of_state(list->view.state);
    list->view.source = source_of(list->page.reply);
    list->at++;
    if (list->left != UINT64_MAX) list->left--;
    *out_view = &list->view;
    return TARRY_OK;
}

void tarry_list_close(tarry_list *list) {
    if (list == NULL) return;
    if (list->has_page) call_end(&list->page);
    free(list->cursor);
    free(list->queue);
    free(list);
}

/* ---- queues */

struct queues_box {
    struct tarry_queues_view view; /* must be first: see tarry_queues_free */
    struct arena arena;
};

int tarry_queues(tarry_client *client, const struct tarry_call *given, struct tarry_queues_view **out_view,
                 char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Queues body = TARRY__QUEUES__INIT;
    wire.body_case = TARRY__REQUEST__BODY_QUEUES;
    wire.queues = &body;
    struct call call;
    struct queues_box *box = NULL;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv != TARRY_OK) goto out;
    rv = call.reply->body_case == TARRY__REPLY__BODY_QUEUES ? TARRY_OK : message_say(out_message, TARRY_E_PROTOCOL);
    if (rv != TARRY_OK) goto out;
    const Tarry__QueuesReply *reply = call.reply->queues;
    struct tarry_queue_view *queues = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*queues));
    struct tarry_policy *policies = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*policies));
    const struct tarry_queue_view **listed = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*listed));
    box = calloc(1, sizeof(*box));
    if (box == NULL || queues == NULL || policies == NULL || listed == NULL) {
        free(box);
        rv = message_say(out_message, TARRY_E_NOMEM);
        goto out;
    }
    for (size_t i = 0; i < reply->n_queues; i++) {
        const Tarry__QueueView *from = reply->queues[i];
        queues[i] = (struct tarry_queue_view){
            .name = from->name,
            .policy = &policies[i],
            .paused = from->paused,
            .paused_until_ms = from->paused_until_ms,
            .pending = from->pending,
            .in_flight = from->in_flight,
            .dead = from->dead,
            .jobs = from->jobs,
        };
        policy_from_proto(from->policy, &policies[i]);
        listed[i] = &queues[i];
    }
    box->view = (struct tarry_queues_view){reply->n_queues, listed, source_of(call.reply)};
    call_keep(&call, &box->arena);
    *out_view = &box->view;
out:
    call_end(&call);
    return rv;
}

void tarry_queues_free(struct tarry_queues_view *view) {
    if (view == NULL) return;
    struct queues_box *box = (struct queues_box *)view;
    arena_deinit(&box->arena);
    free(box);
}

/* ---- stats */

struct stats_box {
    struct tarry_stats_view view; /* must be first: see tarry_stats_free */
    struct tarry_broker_stats broker;
    struct tarry_pair_stats pair;
    struct arena arena;
};

static struct tarry_quantiles quantiles(const Tarry__Quantiles *from) {
    if (from == NULL) return (struct tarry_quantiles){0};
    return (struct tarry_quantiles){from->count, from->p50, from->p99, from->p999, from->max};
}

static void fill_queue(const Tarry__QueueStats *from, struct tarry_queue_stats *out) {
    *out = (struct tarry_queue_stats){
        .name = from->name,
        .pending = from->pending,
        .ready = from->ready,
        .ready_is_lower_bound = from->ready_is_lower_bound,
        .in_flight = from->in_flight,
        .dead = from->dead,
        .paused = from->paused,
        .paused_until_ms = from->paused_until_ms,
        .scheduled = from->scheduled,
        .cancelled = from->cancelled,
        .delivered = from->delivered,
        .acked = from->acked,
        .retried = from->retried,
        .expired = from->expired,
        .dropped = from->dropped,
        .parked = from->parked,
        .oldest_overdue_ms = from->oldest_overdue_ms,
        .lateness_ms = quantiles(from->lateness_ms),
        .jobs = from->jobs,
        .consumers = from->consumers,
    };
}

static void fill_broker(const Tarry__BrokerStats *from, struct tarry_broker_stats *out) {
    *out = (struct tarry_broker_stats){.version = "", .member = "", .archive_error = ""};
    if (from == NULL) return;
    *out = (struct tarry_broker_stats){
        .version = from->version,
        .epoch = from->epoch,
        .now_ms = from->now_ms,
        .uptime_ms = from->uptime_ms,
        .appended = from->appended,
        .durable = from->durable,
        .indexed = from->indexed,
        .log_start = from->log_start,
        .segments = from->segments,
        .log_bytes = from->log_bytes,
        .index_bytes = from->index_bytes,
        .near_tasks = from->near_tasks,
        .core_bytes = from->core_bytes,
        .core_bytes_max = from->core_bytes_max,
        .resident_bytes = from->resident_bytes,
        .sessions = from->sessions,
        .producers = from->producers,
        .live = from->live,
        .fsync_us = quantiles(from->fsync_us),
        .digest = from->digest,
        .clock_held = from->clock_held,
        .member = from->member,
        .erased = from->erased,
        .archived_segments = from->archived_segments,
        .archive_bytes = from->archive_bytes,
        .archive_oldest_ms = from->archive_oldest_ms,
        .archive_held = from->archive_held,
        .archive_error = from->archive_error,
        .disk_free_bytes = from->disk_free,
        .disk_size_bytes = from->disk_bytes,
        .signed_position = from->signed_position,
        .signed_ms = from->signed_ms,
        .host_ms = from->host_ms,
    };
}

static const struct tarry_pair_stats *fill_pair(const Tarry__StatsReply *reply, struct tarry_pair_stats *out) {
    const Tarry__PairStats *from = reply->broker != NULL ? reply->broker->pair : NULL;
    if (from == NULL) return NULL;
    *out = (struct tarry_pair_stats){
        .role = (enum tarry_role)from->role,
        .epoch = from->epoch,
        .in_sync = from->in_sync,
        .alone = from->alone,
        .committed = from->committed,
        .applied = from->applied,
        .lag_frames = from->lag_frames,
        .lag_size = from->lag_bytes,
        .lag_ms = from->lag_ms,
        .digest_position = from->digest_position,
        .compared_count = from->digests_compared,
        .copied_size = from->copied,
        .copy_size = from->copy_bytes,
        .left_ms = from->left_ms,
    };
    return out;
}

/* Converts the broker's statistics. Returns NULL if memory is used up. */
static const struct tarry_push_stats *const *fill_push(const Tarry__BrokerStats *from, struct arena *arena) {
    size_t count = from != NULL ? from->n_push : 0;
    struct tarry_push_stats *rows = arena_alloc(arena, (count + 1) * sizeof(*rows));
    const struct tarry_push_stats **listed = arena_alloc(arena, (count + 1) * sizeof(*listed));
    if (rows == NULL || listed == NULL) return NULL;
    for (size_t i = 0; i < count; i++) {
        const Tarry__PushTarget *row = from->push[i];
        rows[i] = (struct tarry_push_stats){
            .queue = row->queue,
            .in_flight = row->in_flight,
            .sent = row->sent,
            .acked = row->acked,
            .failed = row->failed,
            .refused = row->refused,
            .status = row->status,
            .succeeded_ms = row->succeeded_ms,
            .failed_ms = row->failed_ms,
            .error = row->error,
            .resting_until_ms = row->resting_until_ms,
            .url = row->url,
            .signs = row->signs,
        };
        listed[i] = &rows[i];
    }
    return listed;
}

int tarry_stats(tarry_client *client, const char *queue, const struct tarry_call *given,
                struct tarry_stats_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Stats body = TARRY__STATS__INIT;
    if (queue != NULL) body.queue = (char *)queue;
    wire.body_case = TARRY__REQUEST__BODY_STATS;
    wire.stats = &body;
    struct call call;
    struct stats_box *box = NULL;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv != TARRY_OK) goto out;
    rv = call.reply->body_case == TARRY__REPLY__BODY_STATS ? TARRY_OK : message_say(out_message, TARRY_E_PROTOCOL);
    if (rv != TARRY_OK) goto out;
    const Tarry__StatsReply *reply = call.reply->stats;
    struct tarry_queue_stats *queues = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*queues));
    const struct tarry_queue_stats **listed = arena_alloc(&call.arena, (reply->n_queues + 1) * sizeof(*listed));
    const struct tarry_push_stats *const *push = fill_push(reply->broker, &call.arena);
    box = calloc(1, sizeof(*box));
    if (box == NULL || queues == NULL || listed == NULL || push == NULL) {
        free(box);
        rv = message_say(out_message, TARRY_E_NOMEM);
        goto out;
    }
    for (size_t i = 0; i < reply->n_queues; i++) {
        fill_queue(reply->queues[i], &queues[i]);
        listed[i] = &queues[i];
    }
    box->view.count = reply->n_queues;
    box->view.queues = listed;
    box->view.source = source_of(call.reply);
    fill_broker(reply->broker, &box->broker);
    box->view.broker = &box->broker;
    box->view.pair = fill_pair(reply, &box->pair);
    box->view.push_count = reply->broker != NULL ? reply->broker->n_push : 0;
    box->view.push = push;
    call_keep(&call, &box->arena);
    *out_view = &box->view;
out:
    call_end(&call);
    return rv;
}

void tarry_stats_free(struct tarry_stats_view *view) {
    if (view == NULL) return;
    struct stats_box *box = (struct stats_box *)view;
    arena_deinit(&box->arena);
    free(box);
}

/* ---- jobs */

int tarry_job(tarry_client *client, const char *queue, uint64_t job, const struct tarry_call *given,
              struct tarry_job_view *out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || queue == NULL || job == 0 || out_view == NULL)
        return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Stats body = TARRY__STATS__INIT;
    body.queue = (char *)queue;
    body.job = job;
    wire.body_case = TARRY__REQUEST__BODY_STATS;
    wire.stats = &body;
    struct call call;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv == TARRY_OK && call.reply->body_case != TARRY__REPLY__BODY_STATS)
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    if (rv == TARRY_OK) {
        const Tarry__JobView *view = call.reply->stats->job;
        *out_view = (struct tarry_job_view){.known = view != NULL, .source = source_of(call.reply)};
        if (view != NULL) out_view->running = view->running, out_view->done = view->done, out_view->left = view->left;
    }
    call_end(&call);
    return rv;
}

/* ---- recurrences */

struct recur_box {
    struct tarry_recur_view view; /* must be first: see tarry_recur_free */
    struct arena arena;
};

static void fill_recur(const Tarry__RecurView *from, struct tarry_recur_view *out) {
    *out = (struct tarry_recur_view){
        .queue = from->queue,
        .name = from->name,
        .cron = from->cron,
        .rrule = from->rrule,
        .zone = from->zone,
        .every_ms = from->every_ms,
        .from_ms = from->from_ms,
        .until_ms = from->until_ms,
        .count = from->count,
        .jitter_ms = from->jitter_ms,
        .gap = from->gap,
        .fold = from->fold,
        .missed = from->missed,
        .overlap = from->overlap,
        .days = from->days,
        .state = from->state,
        .problem = from->problem,
        .next_ms = from->next_ms,
        .next_due_ms = from->next_due_ms,
        .next_id = from->next_id,
        .last_ms = from->last_ms,
        .occurrences = from->occurrences,
        .missed_count = from->missed_count,
        .skipped_count = from->skipped_count,
        .open = from->open,
        .tzdata = from->tzdata,
        .last_state = from->last_state,
        .last_ended_ms = from->last_ended_ms,
    };
}

/* Makes the view of the reply's recurrence. */
static int take_recur(struct call *call, struct tarry_recur_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    const Tarry__RecurrencesReply *reply = call->reply->recurrences;
    if (reply->n_recurrences == 0) {
        *out_view = NULL;
        return TARRY_OK;
    }
    const Tarry__RecurView *from = reply->recurrences[0];
    struct recur_box *box = calloc(1, sizeof(*box));
    uint64_t *times = arena_alloc(&call->arena, (from->n_times + 1) * sizeof(*times));
    if (box == NULL || times == NULL) {
        free(box);
        return message_say(out_message, TARRY_E_NOMEM);
    }
    fill_recur(from, &box->view);
    for (size_t i = 0; i < from->n_times; i++) times[i] = from->times[i]->at_ms;
    box->view.times = times;
    box->view.time_count = from->n_times;
    box->view.source = source_of(call->reply);
    call_keep(call, &box->arena);
    *out_view = &box->view;
    return TARRY_OK;
}

int tarry_recur_get(tarry_client *client, const char *queue, const char *name, uint32_t times,
                    const struct tarry_call *given, struct tarry_recur_view **out_view,
                    char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    if (client == NULL || queue == NULL || name == NULL || out_view == NULL)
        return message_say(out_message, TARRY_E_ARGUMENT);
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Recurrences body = TARRY__RECURRENCES__INIT;
    body.queue = (char *)queue;
    body.name = (char *)name;
    body.times = times;
    wire.body_case = TARRY__REQUEST__BODY_RECURRENCES;
    wire.recurrences = &body;
    struct call call;
    int rv = take_wish(client, &options, given, &wire, out_message);
    if (rv != TARRY_OK) return rv;
    rv = call_run_within(client, &wire, timeout_of(options.timeout_ms), &call, out_message);
    if (rv == TARRY_OK && call.reply->body_case != TARRY__REPLY__BODY_RECURRENCES)
        rv = message_say(out_message, TARRY_E_PROTOCOL);
    if (rv == TARRY_OK) rv = take_recur(&call, out_view, out_message);
    call_end(&call);
    return rv;
}

void tarry_recur_free(struct tarry_recur_view *view) {
    if (view == NULL) return;
    struct recur_box *box = (struct recur_box *)view;
    arena_deinit(&box->arena);
    free(box);
}

/* ---- tarry_calendar: counts of waiting tasks by due time */

struct calendar_box {
    struct tarry_calendar_view view; /* must be first: see tarry_calendar_free */
    struct arena arena;
};

static int fill_calendar(struct arena *arena, const Tarry__CalendarReply *from,
                         const struct tarry_calendar_options *options, struct tarry_calendar_view *out) {
    struct tarry_calendar_queue *queues = arena_alloc(arena, (from->n_queues + 1) * sizeof(*queues));
    const struct tarry_calendar_queue **listed = arena_alloc(arena, (from->n_queues + 1) * sizeof(*listed));
    if (queues == NULL || listed == NULL) return TARRY_E_NOMEM;
    if (from->n_counts != options->spans) return TARRY_E_PROTOCOL;
    for (size_t i = 0; i < from->n_queues; i++) {
        queues[i] = (struct tarry_calendar_queue){.name = from->queues[i]->name, .count = from->queues[i]->count};
        listed[i] = &queues[i];
    }
    *out = (struct tarry_calendar_view){
        .from_ms = options->from_ms,
        .step_ms = options->step_ms,
        .count = from->n_counts,
        .counts = from->counts,
        .before = from->before,
        .after = from->after,
        .queue_count = from->n_queues,
        .queues = listed,
        .position = from->position,
        .at_ms = from->at_ms,
        .now_ms = from->now_ms,
    };
    return TARRY_OK;
}

static int take_calendar(const tarry_client *client, const struct tarry_calendar_options *given,
                         struct tarry_calendar_options *out, Tarry__Request *wire) {
    int rv = OPTIONS_CALL_TAKE(*out, given);
    return rv != TARRY_OK ? rv : call_wish(client, wire, &out->call);
}

int tarry_calendar(tarry_client *client, const struct tarry_calendar_options *given,
                   struct tarry_calendar_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_calendar_options options;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Calendar body = TARRY__CALENDAR__INIT;
    if (client == NULL || given == NULL || out_view == NULL) return message_say(out_message, TARRY_E_ARGUMENT);
    int rv = take_calendar(client, given, &options, &wire);
    if (rv != TARRY_OK) return message_say(out_message, rv);
    if (options.queue != NULL) body.queue = (char *)options.queue;
    body.from_ms = options.from_ms;
    body.step_ms = options.step_ms;
    body.spans = options.spans;
    body.by_queue = options.by_queue;
    wire.body_case = TARRY__REQUEST__BODY_CALENDAR;
    wire.calendar = &body;
    struct call call;
    rv = call_run_within(client, &wire, timeout_of(options.call.timeout_ms), &call, out_message);
    if (rv != TARRY_OK) {
        call_end(&call);
        return rv;
    }
    struct calendar_box *box = calloc(1, sizeof(*box));
    rv = box == NULL ? TARRY_E_NOMEM
         : call.reply->body_case != TARRY__REPLY__BODY_CALENDAR
             ? TARRY_E_PROTOCOL
             : fill_calendar(&call.arena, call.reply->calendar, &options, &box->view);
    if (rv == TARRY_OK) {
        box->view.source = source_of(call.reply);
        call_keep(&call, &box->arena);
        *out_view = &box->view;
    } else {
        free(box);
        message_say(out_message, rv);
    }
    call_end(&call);
    return rv;
}

void tarry_calendar_free(struct tarry_calendar_view *view) {
    if (view == NULL) return;
    struct calendar_box *box = (struct calendar_box *)view;
    arena_deinit(&box->arena);
    free(box);
}
