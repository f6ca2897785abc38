/* look.c: read requests for tasks. Each result is a plain struct in one arena. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

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

int tarry_get(tarry_client *client, const struct tarry_ref *ref, bool with_content, const struct tarry_call *given,
              struct tarry_view **out_view, char out_message[TARRY_MESSAGE_SIZE]) {
    struct tarry_call options;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Get get = TARRY__GET__INIT;
    Tarry__Ref task;
    if (client == NULL || out_view == NULL || ref_to_proto(ref, true, &task) != TARRY_OK)
        return message_say(out_message, TARRY_E_ARGUMENT);
    int rv = OPTIONS_TAKE(options, given);
    if (rv == TARRY_OK) rv = call_wish(client, &wire, &options);
    if (rv != TARRY_OK) return message_say(out_message, rv);
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
