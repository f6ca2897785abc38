/* http_connection.h: the state of an HTTP connection; only http_connection.c and http_answer.c include it. */
#ifndef TARRY_HTTP_HTTP_CONNECTION_H
#define TARRY_HTTP_HTTP_CONNECTION_H

#include "http_exchange.h"

TAILQ_HEAD(http_line, http_exchange);

enum http_state { STATE_HEAD, STATE_BODY, STATE_BUSY, STATE_OVER };

struct http_connection {
    struct http_server *server;
    uint64_t id;
    const char *peer;
    struct message *in;
    size_t at;          /* number of bytes of `in` that were consumed; 0 outside run() */
    uint64_t left;      /* body bytes not received yet, if the body has a length */
    size_t part_left;   /* number of body bytes at the start of `in`, without chunk headers */
    uint64_t dropped;   /* number of dropped body bytes */
    uint64_t body_come; /* number of received body bytes */
    /* Number of body bytes (`body_come`) at which the door sets the next deadline for the rest of the body. */
    uint64_t body_timed;
    struct chunks chunks;
    /* Requests of the connection in the order of arrival: those without a response, and those whose response waits for
     * earlier responses. */
    struct http_line line;
    unsigned count; /* number of requests in `line` */
    /* Bytes counted for requests that are under way while the connection already receives a later one: the sum of
     * http_exchange.passed_size. */
    size_t passed_size;
    /* The last request of `line`: it is being received, or it is under way and no further request may begin before its
     * response. NULL: none. */
    struct http_exchange *exchange;
    uint64_t put_off_ms; /* delay after which the postponed commits are sent again */
    uint64_t principal;
    enum http_state state;
    bool is_running; /* true: run() is on the call stack */
    bool is_due;     /* true: run() must do another pass */
    /* Run() stopped because the connection has used up its turn on the door's thread, or must wait for it
     * (door_turn.h). */
    bool is_cut;
    bool is_unread;     /* run() stopped because the client must read replies first */
    bool is_deaf;       /* true: the client has shut down its sending side */
    bool has_more;      /* the decompressor has more output without further input */
    bool is_whole;      /* the body was received completely */
    bool head_is_timed; /* a head has started to arrive, and its deadline runs */
    bool is_admitted;
    bool is_barred;   /* the next request begins when no other is under way */
    bool has_put_off; /* a commit of `line` is postponed, so no request begins beside others */
    bool is_settling; /* settle_put_off() or on_put_off() is on the call stack */
    char shown[512];  /* the Authorization of the admitted principal */
};

/* Sends a part of the response, as soon as all earlier responses are sent. Takes ownership of `message`. */
void exchange_send(struct http_exchange *exchange, struct message *message);
/* Ends the exchange after its response was passed to exchange_send, and continues with the next request or the
 * connection's end. */
void exchange_over(struct http_exchange *exchange);

#endif
