/* lines.c: see lines.h. */
#include "lines.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "json_map.h"

/* ---- lines */

#define READ_SIZE (64u << 10)

void lines_init(struct lines *lines, int fd, int wake_fd) {
    *lines = (struct lines){.fd = fd, .wake_fd = wake_fd};
}

void lines_deinit(struct lines *lines) {
    free(lines->data);
    lines->data = NULL;
}

/* Makes space behind `end` for the next read. */
static void make_room(struct lines *lines) {
    if (lines->start > 0 && lines->capacity - lines->end < READ_SIZE) {
        memmove(lines->data, lines->data + lines->start, lines->end - lines->start);
        lines->searched -= lines->start;
        lines->end -= lines->start;
        lines->start = 0;
    }
    if (lines->capacity - lines->end < READ_SIZE) {
        size_t capacity = lines->capacity == 0 ? 4 * READ_SIZE : lines->capacity * 2;
        char *data = tool_alloc(capacity);
        if (lines->end > 0) memcpy(data, lines->data, lines->end);
        free(lines->data);
        lines->data = data;
        lines->capacity = capacity;
    }
}

/* Reads more bytes of the input. Returns LINES_LINE if bytes were read or the input has ended. */
static int read_more(struct lines *lines) {
    make_room(lines);
    struct pollfd fds[2] = {{.fd = lines->fd, .events = POLLIN}, {.fd = lines->wake_fd, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return -errno;
        if (fds[1].revents != 0) return LINES_WOKEN;
        if (fds[0].revents == 0) continue;
        ssize_t count = read(lines->fd, lines->data + lines->end, lines->capacity - lines->end);
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count < 0) return -errno;
        if (count == 0) lines->ended = true;
        lines->end += (size_t)count;
        return LINES_LINE;
    }
}

/* Returns the line of `size` bytes at `start`. `feed`: number of bytes of the line end. */
static int hand_out(struct lines *lines, size_t size, size_t feed, const char **out_line, size_t *out_size) {
    bool too_long = lines->skipping || size > LINE_SIZE_MAX;
    *out_line = lines->data + lines->start;
    *out_size = size;
    lines->start += size + feed;
    lines->searched = lines->start;
    lines->consumed += size + feed;
    lines->skipping = false;
    lines->number++;
    return too_long ? LINES_TOO_LONG : LINES_LINE;
}

int lines_next(struct lines *lines, const char **out_line, size_t *out_size) {
    for (;;) {
        size_t left = lines->end - lines->searched;
        const char *feed = left > 0 ? memchr(lines->data + lines->searched, '\n', left) : NULL;
        if (feed != NULL) return hand_out(lines, (size_t)(feed - (lines->data + lines->start)), 1, out_line, out_size);
        lines->searched = lines->end;
        /* Drops the beginning of a line that is too long, and remembers to report the line. */
        if (lines->end - lines->start > LINE_SIZE_MAX) {
            lines->skipping = true;
            lines->consumed += lines->end - lines->start;
            lines->start = lines->searched = lines->end = 0;
        }
        if (lines->ended) {
            if (lines->end == lines->start && !lines->skipping) return LINES_END;
            return hand_out(lines, lines->end - lines->start, 0, out_line, out_size);
        }
        int result = read_more(lines);
        if (result != LINES_LINE) return result;
    }
}

/* ---- arguments */

/* Limit in bytes for the memory that one line's JSON takes: its text (at most 16 MiB) and the parsed values. */
#define ARENA_MAX (2ull * REQUEST_SIZE_MAX)

static const char *const names[] = {"schedule", "cancel", "move"};

static int refuse(struct fields *fields, int code, const char *sentence) {
    snprintf(fields->message, sizeof(fields->message), "%s", sentence);
    return code;
}

/* Finds the task that the line names, also if the line is refused for another reason. */
static void find_ref(struct fields *fields) {
    json_t *queue = json_object_get(fields->root, "queue"), *key = json_object_get(fields->root, "key");
    json_t *id = json_object_get(fields->root, "id");
    if (id != NULL) (void)json_id_parse(id, &fields->ref.id);
    if (json_is_string(queue) && strlen(json_string_value(queue)) == json_string_length(queue))
        fields->ref.queue = json_string_value(queue);
    if (!json_is_string(key) || json_string_length(key) == 0) return;
    fields->ref.key = json_string_value(key);
    fields->ref.key_size = json_string_length(key);
}

static int fill_schedule(struct fields *fields, const Tarry__Schedule *schedule) {
    struct tarry_schedule_options *options = &fields->schedule;
    Tarry__Content *content = tarry__content__unpack(&fields->arena.pb, schedule->content.len, schedule->content.data);
    if (content == NULL) return refuse(fields, TARRY_TOO_LARGE, "there is not enough memory for this line");
    json_t *serial = json_object_get(fields->root, "serial");
    fields->own = (struct tarry_own_policy){.max_attempts = schedule->max_attempts,
                                            .backoff_ms = schedule->backoff_ms,
                                            .lease_ms = schedule->lease_ms};
    *options = (struct tarry_schedule_options){
        .queue = schedule->queue,
        .key = fields->ref.key,
        .key_size = fields->ref.key_size,
        .when = (enum tarry_when)schedule->when->kind,
        .when_ms = schedule->when->ms,
        .priority = schedule->priority,
        .expires_ms = schedule->expires_ms,
        .on_conflict = (enum tarry_on_conflict)schedule->on_conflict,
        .attributes = fields->attributes,
        .attribute_count = content->n_attributes,
        .payload = content->payload.len > 0 ? content->payload.data : NULL,
        .payload_size = content->payload.len,
        .properties = content->properties.len > 0 ? content->properties.data : NULL,
        .properties_size = content->properties.len,
        .serial = json_is_string(serial) ? json_string_value(serial) : NULL,
        .own = &fields->own,
    };
    if (content->n_attributes > ATTRIBUTES_MAX)
        return refuse(fields, TARRY_TOO_LARGE, "attributes: more than 64 of them, with content-type");
    for (size_t i = 0; i < content->n_attributes; i++)
        fields->attributes[i] = (struct tarry_attribute){content->attributes[i]->name, content->attributes[i]->value};
    return TARRY_OK;
}

_Static_assert((int)TARRY_DELAY == (int)TARRY__WHEN__KIND__DELAY && (int)TARRY_AT == (int)TARRY__WHEN__KIND__AT,
               "the numbers of when");
_Static_assert((int)TARRY_KEEP_LATER == (int)TARRY__SCHEDULE__ON_CONFLICT__LATER, "the numbers of on_conflict");

static int fill(struct fields *fields, const Tarry__Op *op) {
    switch (op->op_case) {
    case TARRY__OP__OP_SCHEDULE:
        return fill_schedule(fields, op->schedule);
    case TARRY__OP__OP_CANCEL:
        fields->withdraw = op->cancel->withdraw;
        return TARRY_OK;
    default:
        fields->when = (enum tarry_when)op->move->when->kind;
        fields->when_ms = op->move->when->ms;
        return TARRY_OK;
    }
}

int fields_parse(struct fields *fields, enum verb verb, const char *line, size_t size) {
    struct json_in in = {.arena = &fields->arena, .takes_printed = verb != VERB_SCHEDULE};
    fields->root = NULL;
    fields->message[0] = 0;
    fields->schedule = (struct tarry_schedule_options){0};
    fields->ref = (struct tarry_ref){0};
    fields->withdraw = false;
    arena_init(&fields->arena, ARENA_MAX);
    if (size > 0 && line[size - 1] == '\r') size--;
    if (size == 0) return refuse(fields, TARRY_INVALID, "the line is empty");
    fields->root = json_read(&in, line, size);
    Tarry__Op *op = NULL;
    if (fields->root != NULL) {
        find_ref(fields);
        op = json_op_named(&in, names[verb], fields->root);
    }
    if (op == NULL) return refuse(fields, in.too_large ? TARRY_TOO_LARGE : TARRY_INVALID, in.problem);
    return fill(fields, op);
}

void fields_deinit(struct fields *fields) {
    json_decref(fields->root);
    arena_deinit(&fields->arena);
    fields->root = NULL;
}
