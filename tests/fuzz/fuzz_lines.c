/* fuzz_lines.c: NDJSON as `tarry` reads and writes it. Lines come out unchanged, however the reads split them; a
 * refusal has a sentence; an accepted request can be written as a line that means the same; any bytes written as a
 * string give valid JSON.
 *
 * The input: one byte that selects the bytes per read, then the stream. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base64.h"
#include "check.h"
#include "fields.h"
#include "fuzz.h"
#include "lines.h"
#include "ndjson.h"

#define INPUT_SIZE_MAX 4096u
#define PORTIONS_MAX 8u /* packets that fit into a socket without a reader */

static const char *const conflicts[] = {"reject", "replace", "earlier", "later"};

static void write_when(struct text *out, enum tarry_when when, uint64_t when_ms) {
    ndjson_number(out, when == TARRY_DELAY ? "delay_ms" : "due_ms", when_ms);
}

static void write_call(struct text *out, const struct fields *fields, enum verb verb) {
    const struct tarry_schedule_options *schedule = &fields->schedule;
    ndjson_begin(out);
    if (fields->ref.queue != NULL) ndjson_text(out, "queue", fields->ref.queue);
    if (fields->ref.key != NULL) ndjson_bytes(out, "key", fields->ref.key, fields->ref.key_size);
    if (verb != VERB_SCHEDULE) ndjson_id(out, "id", fields->ref.id);
    if (verb != VERB_CANCEL) write_when(out, fields->when, fields->when_ms);
    if (verb == VERB_CANCEL) ndjson_bool(out, "withdraw", fields->withdraw);
    if (verb == VERB_SCHEDULE) {
        if (schedule->payload != NULL) ndjson_body(out, schedule->payload, schedule->payload_size);
        ndjson_number(out, "priority", schedule->priority);
        ndjson_number(out, "expires_ms", schedule->expires_ms);
        ndjson_attributes(out, schedule->attributes, schedule->attribute_count);
        ndjson_text(out, "on_conflict", conflicts[schedule->on_conflict]);
    }
    ndjson_end(out);
}

static bool same_text(const char *a, size_t a_size, const char *b, size_t b_size) {
    return (a == NULL) == (b == NULL) && a_size == b_size && (a_size == 0 || memcmp(a, b, a_size) == 0);
}

static void same_schedule(const struct tarry_schedule_options *a, const struct tarry_schedule_options *b) {
    assert(strcmp(a->queue, b->queue) == 0 && same_text(a->key, a->key_size, b->key, b->key_size));
    assert(a->when == b->when && a->when_ms == b->when_ms && a->priority == b->priority);
    assert(same_text(a->payload, a->payload_size, b->payload, b->payload_size));
    assert(a->expires_ms == b->expires_ms && a->on_conflict == b->on_conflict);
    assert(a->attribute_count == b->attribute_count && a->attribute_count <= ATTRIBUTES_MAX);
    for (size_t i = 0; i < a->attribute_count; i++) {
        assert(strcmp(a->attributes[i].name, b->attributes[i].name) == 0);
        assert(strcmp(a->attributes[i].value, b->attributes[i].value) == 0);
    }
}

static void try_call(const char *line, size_t size, enum verb verb) {
    struct fields fields, again;
    int code = fields_parse(&fields, verb, line, size);
    if (code != TARRY_OK) {
        assert(code == TARRY_INVALID || code == TARRY_TOO_LARGE);
        size_t length = strnlen(fields.message, sizeof(fields.message));
        assert(length > 5 && length < sizeof(fields.message));
    } else {
        struct text out = {0};
        write_call(&out, &fields, verb);
        assert(out.data[out.size - 1] == '\n' && memchr(out.data, '\n', out.size) == out.data + out.size - 1);
        code = fields_parse(&again, verb, out.data, out.size - 1);
        assert(code == TARRY_OK);
        assert(again.ref.id == fields.ref.id && again.withdraw == fields.withdraw);
        assert(same_text(fields.ref.key, fields.ref.key_size, again.ref.key, again.ref.key_size));
        if (verb != VERB_CANCEL) assert(again.when == fields.when && again.when_ms == fields.when_ms);
        if (verb == VERB_SCHEDULE) same_schedule(&fields.schedule, &again.schedule);
        fields_deinit(&again);
        text_deinit(&out);
    }
    fields_deinit(&fields);
}

/* Writes any bytes as a string: the line is JSON, and contains the bytes if they are UTF-8. */
static void written_string_is_json(const char *data, size_t size) {
    struct text out = {0};
    ndjson_begin(&out);
    ndjson_bytes(&out, "s", data, size);
    ndjson_body(&out, data, size);
    ndjson_end(&out);
    json_error_t error;
    json_t *root = json_loadb(out.data, out.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    assert(root != NULL);
    const json_t *string = json_object_get(root, "s"), *base64 = json_object_get(root, "body_base64");
    const json_t *body = json_object_get(root, "body");
    assert((body != NULL) == is_utf8(data, size) && (body == NULL) != (base64 == NULL));
    if (body != NULL) {
        assert(json_string_length(string) == size && memcmp(json_string_value(string), data, size) == 0);
    } else {
        size_t text_size = json_string_length(base64), decoded_size;
        unsigned char *decoded = malloc(base64_decoded_size_max(text_size));
        assert(decoded != NULL && base64_decode(json_string_value(base64), text_size, decoded, &decoded_size));
        assert(decoded_size == size && memcmp(decoded, data, size) == 0);
        free(decoded);
    }
    json_decref(root);
    text_deinit(&out);
}

/* Accepted base64 equals what base64_encode writes, except for the padding. */
static void base64_has_one_spelling(const char *data, size_t size) {
    size_t decoded_size;
    unsigned char *decoded = malloc(base64_decoded_size_max(size));
    if (decoded == NULL) abort();
    if (base64_decode(data, size, decoded, &decoded_size)) {
        struct text out = {0};
        base64_encode(&out, decoded, decoded_size);
        size_t bare = size, encoded = out.size;
        while (bare > 0 && data[bare - 1] == '=') bare--;
        while (encoded > 0 && out.data[encoded - 1] == '=') encoded--;
        assert(bare == encoded && (bare == 0 || memcmp(out.data, data, bare) == 0));
        text_deinit(&out);
    }
    free(decoded);
}

/* The expected lines. */
struct reading {
    struct lines lines;
    const char *stream;
    size_t at;   /* position in the stream */
    size_t size; /* size of the stream */
};

static void take_lines(struct reading *reading) {
    const char *line;
    size_t size;
    int result;
    while ((result = lines_next(&reading->lines, &line, &size)) == LINES_LINE) {
        const char *rest = reading->stream + reading->at;
        size_t left = reading->size - reading->at;
        const char *feed = left > 0 ? memchr(rest, '\n', left) : NULL;
        size_t wanted = feed != NULL ? (size_t)(feed - rest) : left;
        assert(left > 0 && size == wanted && (size == 0 || memcmp(line, rest, size) == 0));
        reading->at += size + (feed != NULL);
        assert(reading->lines.consumed == reading->at);
        for (int verb = VERB_SCHEDULE; verb <= VERB_MOVE; verb++) try_call(line, size, (enum verb)verb);
    }
    assert(result == LINES_END && reading->at == reading->size);
}

/* Reads the stream, `portion` bytes per read. */
static void try_stream(const char *stream, size_t size, size_t portion) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) abort();
    struct reading reading = {.stream = stream, .size = size};
    lines_init(&reading.lines, ends[0], -1);
    for (size_t at = 0; at < size; at += portion) {
        size_t count = portion < size - at ? portion : size - at;
        if (write(ends[1], stream + at, count) != (ssize_t)count) abort();
    }
    close(ends[1]);
    take_lines(&reading);
    lines_deinit(&reading.lines);
    close(ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > INPUT_SIZE_MAX) return 0;
    const char *stream = (const char *)data + 1;
    size_t least = size / PORTIONS_MAX + 1;
    try_stream(stream, size - 1, data[0] > least ? data[0] : least);
    written_string_is_json(stream, size - 1);
    base64_has_one_spelling(stream, size - 1);
    return 0;
}
