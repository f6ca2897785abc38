/* receipt.c: see receipt.h. */
#include "receipt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define HEAD "tarry import 1 "
#define NUMBERS_SIZE_MAX 64u /* enough for a line of the receipt: three numbers and two spaces */

void receipt_begin(struct text *out, const char *server) {
    text_printf(out, HEAD "%.*s\n", (int)RECEIPT_SERVER_SIZE - 1, server);
}

void receipt_add(struct text *out, const struct mark *mark) {
    text_printf(out, "%" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", mark->id, mark->stamp, mark->hash);
}

/* Parses a number of base `base` that ends with `end`, and moves *at behind it. */
static bool take(const char **at, int base, char end, uint64_t *out) {
    const char *digits = base == 16 ? "0123456789abcdef" : "0123456789";
    const size_t size = strspn(*at, digits);
    if (size == 0 || size > 20 || (*at)[size] != end) return false;
    *out = strtoull(*at, NULL, base);
    *at += size + (end != 0);
    return true;
}

static bool parse_line(struct mark *out, const char *line, size_t size) {
    char copy[NUMBERS_SIZE_MAX + 1];
    const char *at = copy;
    if (size > NUMBERS_SIZE_MAX) return false;
    memcpy(copy, line, size);
    copy[size] = 0;
    return take(&at, 10, ' ', &out->id) && take(&at, 10, ' ', &out->stamp) && take(&at, 16, 0, &out->hash) &&
           (size_t)(at - copy) == size;
}

bool receipt_parse(struct receipt *out, const char *text, size_t size) {
    const size_t head = sizeof HEAD - 1;
    *out = (struct receipt){0};
    const char *feed = size > head && memcmp(text, HEAD, head) == 0 ? memchr(text, '\n', size) : NULL;
    if (feed == NULL || (size_t)(feed - text) < head || (size_t)(feed - text) - head >= RECEIPT_SERVER_SIZE)
        return false;
    memcpy(out->server, text + head, (size_t)(feed - text) - head);
    out->marks = tool_alloc(RECEIPT_ITEMS_MAX * sizeof *out->marks);
    for (const char *line = feed + 1, *end = text + size; line < end; line = feed + 1) {
        feed = memchr(line, '\n', (size_t)(end - line));
        if (feed == NULL || out->count == RECEIPT_ITEMS_MAX) return false;
        if (!parse_line(&out->marks[out->count], line, (size_t)(feed - line))) return false;
        out->count++;
    }
    return true;
}

void receipt_deinit(struct receipt *receipt) {
    free(receipt->marks);
    *receipt = (struct receipt){0};
}

bool receipt_has(const struct receipt *receipt, const struct mark *mark, uint64_t slack) {
    for (size_t i = 0; i < receipt->count; i++) {
        const struct mark *other = &receipt->marks[i];
        const uint64_t apart = other->stamp > mark->stamp ? other->stamp - mark->stamp : mark->stamp - other->stamp;
        if (other->id == mark->id && other->hash == mark->hash && apart <= slack) return true;
    }
    return false;
}
