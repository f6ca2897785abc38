/* etcd_gateway.h: requests to etcd's JSON gateway, by libcurl: each at once, none waited for, answers bounded.
 *
 * *What is sent twice might happen twice*: libcurl by itself repeats a request whose connection, used before, ends
 * without an answer. So a request that changes something goes out on a connection of its own (`is_change`).
 *
 * Thread-safety: one thread. libcurl looks names up in threads of its own, which no caller waits for. */
#ifndef TARRY_COORDINATOR_ETCD_GATEWAY_H
#define TARRY_COORDINATOR_ETCD_GATEWAY_H

#include "etcd_words.h"
#include "libcurl.h"

enum exchange_end {
    EXCHANGE_ANSWERED = 1, /* `status`, `answer` */
    EXCHANGE_NOT_SENT,     /* no connection: etcd has not seen it; `error` says why */
    EXCHANGE_LOST,         /* it left this host, or part of it, and no whole answer came */
};

struct gateway {
    CURLM *multi;
    bool is_tls;
    char *ca, *certificate, *key; /* NULL: none */
    uint32_t connect_ms;          /* for a connection to stand, names looked up */
};

/* One request at a time, again and again. Zeros, then `over` and `line` set by its owner. */
struct exchange {
    void (*over)(struct exchange *exchange, enum exchange_end end); /* it may begin the next one */
    void (*line)(
        struct exchange *exchange); /* of an answer without an end (a watch): `answer` has one; NULL: collect */
    CURL *easy;                     /* NULL: nothing is under way */
    struct curl_slist *headers;
    char *body;
    size_t size;
    long status;
    bool is_too_large;
    char answer[ETCD_ANSWER_SIZE_MAX + 1];
    char error[CURL_ERROR_SIZE];
    char words[CURL_ERROR_SIZE]; /* libcurl's */
};

struct request {
    const char *host;    /* host:port */
    const char *path;    /* "kv/range" */
    char *body;          /* taken over, and wiped in the end; NULL: no memory */
    const char *token;   /* NULL: none */
    uint32_t timeout_ms; /* 0: none */
    bool is_change;
};

/* 0, or 1 with a sentence. */
int gateway_open(struct gateway *gateway, char message[COORDINATOR_MESSAGE_SIZE]);
/* Every exchange has been dropped. */
void gateway_close(struct gateway *gateway);
void gateway_wait(struct gateway *gateway, int wake, int wait_ms);
/* Carries on whatever is under way; calls `over` and `line`. */
void gateway_turn(struct gateway *gateway);
/* 0, or 1: no memory; then nothing is under way. */
int exchange_begin(struct gateway *gateway, struct exchange *exchange, const struct request *request);
/* Nothing is under way any more; `over` is not called. NULL easy: nothing. */
void exchange_drop(struct gateway *gateway, struct exchange *exchange);
/* Whether surely nothing of it has left this host. */
bool exchange_is_unsent(const struct gateway *gateway, const struct exchange *exchange);

#endif
