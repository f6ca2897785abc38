/* door_head.h: the head of a request for the library: judged by the strict parser (http_head.h) as the heads of /v1
 * are, and written anew. The library reads what this file has written, and no byte as it came. Pure. */
#ifndef TARRY_NET_DOOR_HEAD_H
#define TARRY_NET_DOOR_HEAD_H

#include "http_head.h"

/* Bytes of a head for the library, as it comes and as it is written anew. */
#define DOOR_HEAD_SIZE_MAX 8000u
#define DOOR_HEAD_WRITTEN_MAX 4000u

struct door_head {
    char text[DOOR_HEAD_WRITTEN_MAX]; /* what the library gets */
    size_t size;
    size_t used;     /* bytes of what came that were the head */
    bool is_upgrade; /* to WebSocket: what follows the head is the connection's; else nothing may follow */
};

/* DONE: `*out`; `bytes` are changed. MORE: the head is not whole. BAD: `*out_refusal` is the answer. */
enum head_result door_head_read(char *bytes, size_t size, struct door_head *out, struct head_refusal *out_refusal);

#endif
