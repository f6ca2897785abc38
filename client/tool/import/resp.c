/* resp.c: see resp.h. */
#include "resp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parses a line that is only a number, with an optional sign. */
static bool number_of(const char *line, size_t size, int64_t *out) {
    const size_t sign = size > 0 && line[0] == '-';
    if (size == sign || size > 20 || strspn(line + sign, "0123456789") != size - sign) return false;
    errno = 0;
    *out = strtoll(line, NULL, 10);
    return errno == 0;
}

/* Reads a string of `size` bytes and the CR LF after it. */
static bool bulk(struct server_link *link, struct resp *out, uint64_t size) {
    const char *bytes;
    out->kind = size > RESP_BULK_SIZE_MAX ? RESP_HUGE : RESP_STRING;
    if (out->kind == RESP_HUGE) return server_link_skip(link, size + 2);
    if (!server_link_bytes(link, (size_t)size + 2, &bytes)) return false;
    if (memcmp(bytes + size, "\r\n", 2) != 0)
        return server_link_fail(link, "sent a string that is longer than announced");
    out->bytes = bytes;
    out->size = (size_t)size;
    return true;
}

bool resp_read(struct server_link *link, struct resp *out) {
    const char *line;
    size_t size;
    *out = (struct resp){.kind = RESP_NULL};
    if (!server_link_line(link, RESP_LINE_SIZE_MAX, &line, &size)) return false;
    const char kind = size > 0 ? line[0] : 0;
    if (kind == '+' || kind == '-') {
        out->kind = kind == '+' ? RESP_STRING : RESP_ERROR;
        out->bytes = line + 1;
        out->size = size - 1;
        return true;
    }
    if ((kind != ':' && kind != '$' && kind != '*') || !number_of(line + 1, size - 1, &out->number))
        return server_link_fail(link, "sent a reply that is not Redis protocol: it may be another kind of server");
    if (kind == ':') {
        out->kind = RESP_INTEGER;
        return true;
    }
    if (out->number == -1) return true;
    if (kind == '$' && out->number >= 0 && (uint64_t)out->number < RESP_BULK_SIZE_END)
        return bulk(link, out, (uint64_t)out->number);
    out->kind = RESP_ARRAY;
    if (kind == '*' && out->number >= 0 && out->number <= RESP_ITEMS_MAX) return true;
    return server_link_fail(link, "announced %s of %lld elements: more than the maximum",
                            kind == '*' ? "a list" : "a string", (long long)out->number);
}

void resp_begin(struct text *out, size_t count) {
    text_printf(out, "*%zu\r\n", count);
}

void resp_argument(struct text *out, const void *bytes, size_t size) {
    text_printf(out, "$%zu\r\n", size);
    text_add(out, bytes, size);
    text_add_str(out, "\r\n");
}

void resp_word(struct text *out, const char *word) {
    resp_argument(out, word, strlen(word));
}
