/* door_head.h: checks a request head with the strict parser (http_head.h), and rewrites it for libwebsockets. The
 * library reads only rewritten heads, never the client's bytes. Pure. */
#ifndef TARRY_NET_DOOR_HEAD_H
#define TARRY_NET_DOOR_HEAD_H

#include "http_head.h"

/* Maximum bytes of a head for the library, as received and as rewritten. */
#define DOOR_HEAD_SIZE_MAX 8000u
#define DOOR_HEAD_WRITTEN_MAX 4000u

struct door_head {
    char text[DOOR_HEAD_WRITTEN_MAX]; /* the rewritten head */
    size_t size;
    size_t used;     /* number of received bytes that belong to the head */
    bool is_upgrade; /* the request upgrades to WebSocket, so bytes may follow the head; otherwise none may follow */
};

/* Reads one head and rewrites it; changes `bytes`. DONE: `*out` is valid. MORE: the head is incomplete. BAD:
 * `*out_refusal` is the reply. */
enum head_result door_head_read(char *bytes, size_t size, struct door_head *out, struct head_refusal *out_refusal);

#endif
