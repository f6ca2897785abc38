/* out.c: see out.h. */
#include "out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_room(struct out *out, size_t size) {
    if (out->room - out->size >= size) return;
    size_t room = out->room < 256 ? 256 : out->room;
    while (room - out->size < size) room *= 2;
    uint8_t *data = realloc(out->data, room);
    if (data == NULL) abort();
    out->data = data;
    out->room = room;
}

void out_deinit(struct out *out) {
    free(out->data);
    *out = (struct out){0};
}

void out_bytes(struct out *out, const void *data, size_t size) {
    if (size == 0) return;
    make_room(out, size);
    memcpy(out->data + out->size, data, size);
    out->size += size;
}

void out_byte(struct out *out, uint8_t byte) {
    out_bytes(out, &byte, 1);
}

void out_text(struct out *out, const char *text) {
    out_bytes(out, text, strlen(text));
}

void out_format(struct out *out, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (size > 0) out_bytes(out, text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1);
}

void out_number(struct out *out, uint64_t value, unsigned size) {
    while (size-- > 0) out_byte(out, (uint8_t)(value >> 8 * size));
}

void out_varint(struct out *out, uint64_t value, unsigned padding) {
    unsigned written = 1;
    for (; value >= 0x80; value >>= 7, written++) out_byte(out, (uint8_t)(value | 0x80));
    for (; padding > 0 && written < 10; padding--, written++, value = 0) out_byte(out, (uint8_t)(value | 0x80));
    out_byte(out, (uint8_t)value);
}

void out_delimit(struct out *out, size_t start, int64_t lie) {
    size_t size = out->size - start;
    struct out head = {0};
    out_varint(&head, size + (uint64_t)lie, 0);
    make_room(out, head.size);
    memmove(out->data + start + head.size, out->data + start, size);
    memcpy(out->data + start, head.data, head.size);
    out->size += head.size;
    out_deinit(&head);
}

void out_drop(struct out *out, size_t size) {
    out->size -= size;
    memmove(out->data, out->data + size, out->size);
}
