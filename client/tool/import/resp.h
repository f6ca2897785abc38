/* resp.h: reads a reply of Redis (RESP 2), item by item.
 *
 * Supports only what an import needs: strings, numbers, errors, nulls, and arrays, whose items the caller reads one
 * by one. Sizes and counts are limited; an invalid reply fails the link. */
#ifndef TARRY_TOOL_IMPORT_RESP_H
#define TARRY_TOOL_IMPORT_RESP_H

#include "server_link.h"
#include "text.h"

#define RESP_LINE_SIZE_MAX 1024u
#define RESP_ITEMS_MAX (1u << 16)
/* Size limit in bytes. A larger string is discarded while it is read (RESP_HUGE), because no task may be so large. */
#define RESP_BULK_SIZE_MAX (8u << 20)
/* Maximum string size of Redis itself. */
#define RESP_BULK_SIZE_END (1ull << 32)

enum resp_kind { RESP_STRING, RESP_ERROR, RESP_INTEGER, RESP_NULL, RESP_ARRAY, RESP_HUGE };

struct resp {
    enum resp_kind kind;
    int64_t number;    /* RESP_INTEGER: the number; RESP_ARRAY: number of items that follow; RESP_HUGE: size in bytes */
    const char *bytes; /* the text of a RESP_STRING or RESP_ERROR; valid until the next call on the link */
    size_t size;
};

/* Returns false if the link has failed. */
bool resp_read(struct server_link *link, struct resp *out);
/* Build a command of Redis: first resp_begin with the number of arguments, then each argument. */
void resp_begin(struct text *out, size_t count);
void resp_argument(struct text *out, const void *bytes, size_t size);
void resp_word(struct text *out, const char *word);

#endif
