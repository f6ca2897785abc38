/* door_head.c: see door_head.h. What the library (4.1.6) misreads:
 *
 * A header whose name is the beginning of one that it knows ("X-Auth", "If", "Content") it takes for a longer name, up
 * to the next colon, wherever that is: what comes in between, Authorization, Origin, a length, the empty line, is
 * passed over. Such a name gets one character more, before its colon, and is one that the library does not know. A line
 * without a colon, and one that continues the line before (RFC 9112, 5.2, lets a server refuse it), hide the next ones
 * likewise: a connection that sends one is not read any more. */
#include "door_head.h"

#include <ctype.h>
#include <libwebsockets.h>
#include <string.h>

#define NAMELESS '~' /* no name that is known ends so */

/* Is it no name that the library knows, but the beginning of one? */
static bool is_beginning(const char *name, size_t size) {
    bool found = false;
    const char *known;
    for (int token = 0; (known = (const char *)lws_token_to_string((enum lws_token_indexes)token)) != NULL; token++) {
        if (strncmp(known, name, size) != 0 || known[size] == '\0') continue;
        if (known[size] == ':') return false;
        found = true;
    }
    return found;
}

/* The name has a byte more. */
static void add(struct head *head, uint8_t byte) {
    if (head->name_size < HEAD_NAME_MAX) head->name[head->name_size] = (char)tolower(byte);
    if (head->name_size <= HEAD_NAME_MAX) head->name_size++;
}

/* What a byte makes of where in the head one is. */
static enum head_place next_place(const struct head *head, uint8_t byte) {
    bool is_end = byte == '\n' || byte == '\r';
    switch (head->place) {
    case HEAD_BEGINS:
        return is_end ? HEAD_IS_WRONG : HEAD_IN_VALUE; /* the request line */
    case HEAD_IN_VALUE:
        return byte == '\n' ? HEAD_IN_LINE : HEAD_IN_VALUE;
    case HEAD_IN_LINE: /* at its first byte */
        if (is_end) return byte == '\r' ? HEAD_IN_LAST_LINE : HEAD_IS_OVER;
        return byte == ' ' || byte == '\t' || byte == ':' ? HEAD_IS_WRONG : HEAD_IN_NAME;
    case HEAD_IN_NAME:
        if (is_end) return HEAD_IS_WRONG;
        return byte == ':' ? HEAD_IN_VALUE : HEAD_IN_NAME;
    case HEAD_IN_LAST_LINE:
        return byte == '\n' ? HEAD_IS_OVER : HEAD_IS_WRONG;
    case HEAD_IS_OVER:
    case HEAD_IS_WRONG:
        break;
    }
    return head->place;
}

bool head_put_right(struct head *head, uint8_t *buffer, size_t *size) {
    const uint8_t *in = memmove(buffer + *size, buffer, *size), *end = in + *size;
    uint8_t *out = buffer;
    while (in < end && head->place != HEAD_IS_OVER) {
        enum head_place next = next_place(head, *in);
        if (next == HEAD_IS_WRONG) return false;
        if (head->place == HEAD_IN_LINE) head->name_size = 0;
        if (next == HEAD_IN_NAME) add(head, *in);
        bool is_named = head->place == HEAD_IN_NAME && next == HEAD_IN_VALUE;
        if (is_named && head->name_size <= HEAD_NAME_MAX && is_beginning(head->name, head->name_size))
            *out++ = NAMELESS;
        *out++ = *in++;
        head->place = next;
    }
    memmove(out, in, (size_t)(end - in));
    *size = (size_t)(out - buffer) + (size_t)(end - in);
    return true;
}
