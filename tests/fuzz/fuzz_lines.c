/* fuzz_lines.c: NDJSON as `tarry` reads and writes it. The lines contain exactly the bytes of the stream, however many
 * bytes each read returns; a refusal has a sentence; a line with any bytes written as a string is JSON. (fuzz_http.c
 * tests how operations are written.)
 *
 * The input: one byte that selects the bytes per read, then the stream. */
#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "fuzz.h"
#include "json_map.h"
#include "lines.h"

#define INPUT_SIZE_MAX 4096u
#define PORTIONS_MAX 8u /* maximum number of packets that are sent before one is read; they fit into the socket */

static void try_call(const char *line, size_t size, enum verb verb) {
    struct fields fields;
    int code = fields_parse(&fields, verb, line, size);
    if (code != TARRY_OK) {
        assert(code == TARRY_INVALID || code == TARRY_TOO_LARGE);
        size_t length = strnlen(fields.message, sizeof(fields.message));
        assert(length > 5 && length < sizeof(fields.message));
    } else {
        const struct tarry_schedule_options *schedule = &fields.schedule;
        const bool has_ref = fields.ref.id != 0 || (fields.ref.queue != NULL && fields.ref.key != NULL);
        assert(verb == VERB_SCHEDULE ? schedule->queue != NULL : has_ref);
        assert(schedule->attribute_count <= ATTRIBUTES_MAX);
        assert(schedule->payload_size == 0 || schedule->payload != NULL);
    }
    fields_deinit(&fields);
}

/* Writes any bytes as a string: the line is JSON, and contains the bytes if they are UTF-8. */
static void written_string_is_json(const char *data, size_t size) {
    struct text out = {0};
    out_begin(&out, '{');
    out_bytes(&out, "s", data, size);
    Tarry__Content content = TARRY__CONTENT__INIT;
    content.payload = (ProtobufCBinaryData){size, (uint8_t *)data};
    json_content(&out, &content);
    out_line_end(&out);
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
        unsigned char *decoded = malloc(text_size + 1);
        assert(decoded != NULL && sodium_base642bin(decoded, text_size + 1, json_string_value(base64), text_size, NULL,
                                                    &decoded_size, NULL, sodium_base64_VARIANT_ORIGINAL) == 0);
        assert(decoded_size == size && memcmp(decoded, data, size) == 0);
        free(decoded);
    }
    json_decref(root);
    text_deinit(&out);
}

/* The stream, and the expected lines. */
struct reading {
    struct lines lines;
    const char *stream;
    size_t at;   /* position in the stream */
    size_t size; /* number of bytes in the stream */
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

/* Reads the stream with reads of `portion` bytes. */
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
    return 0;
}
