/* http_connection.h: a connection that speaks HTTP; for http_connection.c and http_answer.c alone. */
#ifndef TARRY_HTTP_HTTP_CONNECTION_H
#define TARRY_HTTP_HTTP_CONNECTION_H

#include "http_exchange.h"

enum http_state { STATE_HEAD, STATE_BODY, STATE_BUSY, STATE_OVER };

struct http_connection {
    struct http_server *server;
    uint64_t id;
    const char *peer;
    enum http_state state;
    bool is_running; /* run() is under way … */
    bool is_due;     /* … and has more to do … */
    bool is_cut;     /* … but its turn is over (door_turn.h) … */
    bool is_unread;  /* … or waits for answers to be read */
    struct message *in;
    uint64_t left;       /* of a body that has a length */
    size_t part_left;    /* bytes at the beginning of `in` that are the body's, without chunks' heads */
    bool has_more;       /* the unpacker of the body has more, without further bytes */
    uint64_t dropped;    /* bytes of a body that were dropped */
    bool is_whole;       /* the body */
    uint64_t body_come;  /* bytes of a body */
    uint64_t body_timed; /* … with which its next deadline begins */
    bool head_is_timed;  /* a head has begun to come, and its deadline runs */
    struct chunks chunks;
    struct http_exchange *exchange;
    bool is_admitted;
    uint64_t principal;
    char shown[512]; /* the Authorization that was admitted */
};

/* Its answer has been sent: the next request, or the end. Frees it. */
void exchange_over(struct http_exchange *exchange);

#endif
