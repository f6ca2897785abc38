/* etcd_gateway.h: sends requests to etcd's JSON gateway with libcurl: in parallel, without waiting, with bounded
 * answers.
 *
 * *A request that is sent twice may be carried out twice*: libcurl by itself repeats a request if a reused connection
 * ends without an answer. So each request that changes something uses a new connection (`is_change`).
 *
 * Thread-safety: one thread. libcurl looks up names in its own threads, and no caller waits for those. */
#ifndef TARRY_COORDINATOR_ETCD_GATEWAY_H
#define TARRY_COORDINATOR_ETCD_GATEWAY_H

#include "etcd_words.h"
#include "libcurl.h"

enum exchange_end {
    EXCHANGE_ANSWERED = 1, /* `status` and `answer` are set */
    EXCHANGE_NOT_SENT,     /* no connection: etcd has not seen the request; `error` gives the reason */
    EXCHANGE_LOST,         /* at least a part was sent, and no complete answer came */
};

struct gateway {
    CURLM *multi;
    bool is_tls;
    char *ca, *certificate, *key; /* NULL: none */
    uint32_t connect_ms;          /* timeout for connecting, including the name lookup */
};

/* A slot for one request at a time; reusable. Its owner zeroes it, and then sets `over` and `line`. */
struct exchange {
    void (*over)(struct exchange *exchange, enum exchange_end end); /* may begin the next request */
    void (*line)(struct exchange *exchange); /* each line of an endless answer (a watch), in `answer`; NULL: collect */
    CURL *easy;                              /* NULL: no request is under way */
    struct curl_slist *headers;
    char *body;
    size_t size;
    long status;
    bool is_too_large;
    char answer[ETCD_ANSWER_SIZE_MAX + 1];
    char error[CURL_ERROR_SIZE];
    char words[CURL_ERROR_SIZE]; /* libcurl's error message */
};

struct request {
    const char *host;    /* host:port */
    const char *path;    /* "kv/range" */
    char *body;          /* taken over, and wiped at the end; NULL: out of memory */
    const char *token;   /* NULL: none */
    uint32_t timeout_ms; /* 0: no timeout */
    bool is_change;
};

/* Returns 0, or 1 with a sentence. */
int gateway_open(struct gateway *gateway, char message[COORDINATOR_MESSAGE_SIZE]);
/* Call after every exchange was dropped. */
void gateway_close(struct gateway *gateway);
void gateway_wait(struct gateway *gateway, int wake, int wait_ms);
/* Advances all requests; calls `over` and `line`. */
void gateway_turn(struct gateway *gateway);
/* Begins a request. Returns 0, or 1: out of memory, and no request is under way. */
int exchange_begin(struct gateway *gateway, struct exchange *exchange, const struct request *request);
/* Ends the request without a call of `over`; does nothing if `easy` is NULL. */
void exchange_drop(struct gateway *gateway, struct exchange *exchange);
/* Returns whether certainly no part of the request was sent. */
bool exchange_is_unsent(const struct gateway *gateway, const struct exchange *exchange);

#endif
