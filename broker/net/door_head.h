/* door_head.h: what the library misreads in a head is put right before it sees it, or is not read. Pure. */
#ifndef TARRY_NET_DOOR_HEAD_H
#define TARRY_NET_DOOR_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A header's name as long as the library knows one, without its colon. */
#define HEAD_NAME_MAX 30

enum head_place {
    HEAD_BEGINS,
    HEAD_IN_LINE, /* at the beginning of one */
    HEAD_IN_NAME,
    HEAD_IN_VALUE, /* or in the request line */
    HEAD_IN_LAST_LINE,
    HEAD_IS_OVER,
    HEAD_IS_WRONG
};

/* How far the head of a connection's one request has come. All zero: nothing of it has. */
struct head {
    enum head_place place;
    uint8_t name_size; /* HEAD_NAME_MAX + 1: too long to be known */
    char name[HEAD_NAME_MAX];
};

/* `buffer` has twice the room of the `size` bytes that have come of a head, and perhaps behind it. False: it is none
 * that the library reads as other programs do. */
bool head_put_right(struct head *head, uint8_t *buffer, size_t *size);

#endif
