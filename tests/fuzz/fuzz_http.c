/* fuzz_http.c: bytes of an HTTP client. An incomplete head is left unchanged; if a short head is refused, no longer
 * one is accepted. The texts of a head are NUL-terminated and lie inside it. Chunks give the same body however they are
 * split. An accepted operation can be packed, and its output is JSON.
 *
 * The input: one byte that selects the kind and the size of the pieces, then the text. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "http_head.h"
#include "json_map.h"

#define ARENA_MAX (1u << 20)

/* Returns a copy in memory of exactly its size, so that a read past its end is detected. */
static char *copy_of(const uint8_t *data, size_t size) {
    char *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

static void check_text(const struct head_text *text, const char *bytes, size_t used) {
    if (text->text == NULL) return;
    assert(text->text >= bytes && text->text + text->size < bytes + used);
    assert(text->text[text->size] == '\0');
}

static enum head_result parse(const uint8_t *data, size_t size) {
    struct head head;
    struct head_refusal refusal = {0};
    size_t used = 0;
    char *bytes = copy_of(data, size);
    enum head_result result = http_head_parse(bytes, size, &head, &used, &refusal);
    if (result == HEAD_MORE) assert(size == 0 || memcmp(bytes, data, size) == 0);
    if (result == HEAD_BAD) assert(refusal.status >= 400 && refusal.status < 600 && refusal.sentence != NULL);
    if (result == HEAD_DONE) {
        assert(used > 0 && used <= size);
        assert(head.segment_count <= HEAD_SEGMENTS_MAX && head.parameter_count <= HEAD_PARAMETERS_MAX);
        assert(!head.is_chunked || head.length == 0);
        for (size_t i = 0; i < head.segment_count; i++) check_text(&head.segments[i], bytes, used);
        for (size_t i = 0; i < head.parameter_count; i++) {
            check_text(&head.parameters[i].name, bytes, used);
            check_text(&head.parameters[i].value, bytes, used);
        }
        for (size_t i = 0; i < HEAD_FIELDS_KNOWN; i++) check_text(&head.fields[i], bytes, used);
    }
    free(bytes);
    return result;
}

static void heads(const uint8_t *data, size_t size, size_t piece) {
    enum head_result whole = parse(data, size);
    enum head_result part = parse(data, piece < size ? piece : size);
    assert(part != HEAD_BAD || whole == HEAD_BAD);
}

struct body {
    char *bytes;
    size_t size;
    size_t used; /* number of bytes that have been parsed */
    enum head_result result;
};

static struct body unchunk(const uint8_t *data, size_t size, size_t piece) {
    struct chunks chunks = {0};
    struct body body = {.bytes = malloc(size + 1), .result = HEAD_MORE};
    if (body.bytes == NULL) abort();
    while (body.used < size && body.result == HEAD_MORE) {
        size_t part = piece < size - body.used ? piece : size - body.used, taken = part, out_size = 0;
        char *bytes = copy_of(data + body.used, part), *out = NULL;
        body.result = chunks_take(&chunks, bytes, &taken, &out, &out_size);
        if (body.result != HEAD_BAD) {
            assert(taken <= part && (taken > 0 || body.result == HEAD_DONE));
            assert(out_size == 0 || (out >= bytes && out + out_size <= bytes + part));
            if (out_size > 0) memcpy(body.bytes + body.size, out, out_size);
            body.size += out_size;
            body.used += taken;
        }
        free(bytes);
    }
    return body;
}

static void bodies(const uint8_t *data, size_t size, size_t piece) {
    struct body whole = unchunk(data, size, size), pieces = unchunk(data, size, piece);
    assert(whole.result == pieces.result);
    if (whole.result != HEAD_BAD) {
        assert(whole.used == pieces.used && whole.size == pieces.size);
        assert(whole.size == 0 || memcmp(whole.bytes, pieces.bytes, whole.size) == 0);
    }
    free(whole.bytes);
    free(pieces.bytes);
}

/* Checks that an operation that is written as JSON is read back unchanged, except that a JSON payload is formatted
 * again. */
static void check_op(struct arena *arena, const Tarry__Op *op) {
    struct text out = {0};
    struct json_in in = {.arena = arena};
    size_t size = tarry__op__get_packed_size(op);
    uint8_t *packed = malloc(size + 1), *again = malloc(size + 1);
    if (packed == NULL || again == NULL) abort();
    assert(tarry__op__pack(op, packed) == size);
    json_write_op(&out, op);
    assert(!out.failed);
    json_t *json = json_read(&in, out.data, out.size);
    bool is_json = json_object_get(json_object_get(json, "schedule"), "json") != NULL;
    Tarry__Op *back = json != NULL ? json_op(&in, json) : NULL;
    assert(is_json || json != NULL || in.too_large);
    if (!is_json && json != NULL && !in.too_large) {
        assert(back != NULL && tarry__op__get_packed_size(back) == size);
        tarry__op__pack(back, again);
        assert(memcmp(packed, again, size) == 0);
    }
    json_decref(json);
    free(packed);
    free(again);
    text_deinit(&out);
}

static void operations(const uint8_t *data, size_t size) {
    struct arena arena;
    arena_init(&arena, ARENA_MAX);
    struct json_in in = {.arena = &arena};
    char *text = copy_of(data, size);
    json_t *json = json_read(&in, text, size);
    Tarry__Op *op = json != NULL ? json_op(&in, json) : NULL;
    if (op != NULL)
        check_op(&arena, op);
    else
        assert(in.problem[0] != '\0');
    json_decref(json);
    arena_deinit(&arena);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    size_t piece = 1 + data[0] / 3;
    if (data[0] % 3 == 0)
        heads(data + 1, size - 1, piece);
    else if (data[0] % 3 == 1)
        bodies(data + 1, size - 1, piece);
    else
        operations(data + 1, size - 1);
    return 0;
}
