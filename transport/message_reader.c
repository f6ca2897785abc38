/* message_reader.c: see message_reader.h. */
#include "message_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY ((size_t)16 << 10)
#define KEPT_CAPACITY ((size_t)1 << 20) /* a buffer above this size is freed after the message that needed it */

void message_reader_init(struct message_reader *reader, size_t message_max) {
    *reader = (struct message_reader){.data = NULL};
    ws_decoder_init(&reader->decoder, WS_CLIENT, UINT64_MAX, message_max);
}

void message_reader_deinit(struct message_reader *reader) {
    free(reader->data);
    *reader = (struct message_reader){.data = NULL};
}

/* Removes messages that were already returned, and headers of fragments, from the buffer. */
static void compact(struct message_reader *reader) {
    const size_t rest = reader->end - reader->at;
    if (reader->begun > 0 && reader->size > 0) memmove(reader->data, reader->data + reader->begun, reader->size);
    if (rest > 0 && reader->at > reader->size) memmove(reader->data + reader->size, reader->data + reader->at, rest);
    reader->begun = 0;
    reader->at = reader->size;
    reader->end = reader->at + rest;
}

static bool resize(struct message_reader *reader, size_t capacity) {
    uint8_t *data = realloc(reader->data, capacity);
    if (data == NULL) return false;
    reader->data = data;
    reader->capacity = capacity;
    return true;
}

uint8_t *message_reader_room(struct message_reader *reader, size_t *out_size) {
    const size_t missing = (size_t)ws_decoder_wants(&reader->decoder);
    if (!reader->in_message) reader->size = 0;
    if (!reader->in_message && reader->at == reader->end) {
        reader->begun = reader->at = reader->end = 0;
        if (reader->capacity > KEPT_CAPACITY && missing < FIRST_CAPACITY && !resize(reader, FIRST_CAPACITY))
            return NULL;
    }
    if (reader->capacity - reader->end < missing) compact(reader);
    if (reader->capacity - reader->end < missing) {
        const size_t all = reader->end + missing, doubled = 2 * reader->capacity;
        size_t capacity =
            all < doubled
                ? all
                : doubled; /* at most doubled, so that a large announced size alone does not make the buffer large */
        if (capacity < FIRST_CAPACITY) capacity = FIRST_CAPACITY;
        if (capacity > reader->capacity && !resize(reader, capacity)) return NULL;
    }
    assert(reader->capacity > reader->end);
    *out_size = reader->capacity - reader->end;
    return reader->data + reader->end;
}

void message_reader_took(struct message_reader *reader, size_t size) {
    assert(size <= reader->capacity - reader->end);
    reader->end += size;
}

/* Joins a span with the message so far. True: the message is whole. */
static bool join(struct message_reader *reader, const struct ws_event *span) {
    if (span->begins_message) {
        reader->begun = (size_t)(span->data - reader->data);
        reader->size = 0;
    }
    uint8_t *to = reader->data + reader->begun + reader->size;
    if (span->data != to && span->size > 0) memmove(to, span->data, span->size);
    reader->size += span->size;
    reader->received += span->size;
    reader->in_message = !span->ends_message;
    return span->ends_message;
}

void message_reader_next(struct message_reader *reader, struct ws_event *out) {
    if (reader->at == reader->end && reader->decoder.error == WS_ERROR_NONE) {
        out->kind = WS_NEEDS_MORE;
        return;
    }
    do {
        reader->at += ws_decode(&reader->decoder, reader->data + reader->at, reader->end - reader->at, out);
        if (out->kind != WS_DATA) return;
    } while (!join(reader, out));
    out->data = reader->data + reader->begun;
    out->size = reader->size;
}
