/* etcd_gateway.h: requests to etcd's JSON gateway, by libcurl. Each request is sent at once, no request blocks, and
 * answers have a maximum size.
 *
 * A request that is sent twice might be executed twice. libcurl itself repeats a request if a reused connection ends
 * without an answer. So each change (`is_change`) uses a connection of its own.
 *
 * Thread-safety: one thread. libcurl looks up names in its own threads, for which no caller waits. */
#ifndef TARRY_COORDINATOR_ETCD_GATEWAY_H
#define TARRY_COORDINATOR_ETCD_GATEWAY_H

#include "etcd_words.h"
#include "libcurl.h"

enum exchange_end {
    EXCHANGE_ANSWERED = 1, /* a complete answer came: `status` and `answer` are valid */
    EXCHANGE_NOT_SENT,     /* no connection, so etcd has not received the request; `error` describes the problem */
    EXCHANGE_LOST,         /* at least a part was sent, but no complete answer came */
};

struct gateway {
    CURLM *multi;
    bool is_tls;
    char *ca, *certificate, *key; /* NULL: none */
    uint32_t connect_ms;          /* time limit for connecting, name look-up included */
};

/* Runs one HTTP request at a time, and can be used again. Initialize it with zeros; the owner then sets the callbacks
 * `over` and `line`. */
struct exchange {
    /* Called at the end of the request; may begin the next one. */
    void (*over)(struct exchange *exchange, enum exchange_end end);
    void (*line)(struct exchange *exchange); /* called for each line of an endless answer (a watch), with the line in
                                                `answer`; NULL: collect the answer */
    CURL *easy;                              /* libcurl's handle of the running request; NULL: none is running */
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
    char *body;          /* body of the request: owned, wiped and freed at the end; NULL: out of memory */
    const char *token;   /* NULL: none */
    uint32_t timeout_ms; /* 0: none */
    bool is_change;
};

/* Opens the gateway. Returns 0, or 1 with an error message. */
int gateway_open(struct gateway *gateway, char message[COORDINATOR_MESSAGE_SIZE]);
/* Closes the gateway; every exchange must have been dropped. */
void gateway_close(struct gateway *gateway);
void gateway_wait(struct gateway *gateway, int wake, int wait_ms);
/* Continues all running exchanges; calls `over` and `line`. */
void gateway_turn(struct gateway *gateway);
/* Begins a request. Returns 0, or 1 if memory is exhausted and no request is running. */
int exchange_begin(struct gateway *gateway, struct exchange *exchange, const struct request *request);
/* Ends the running request without calling `over`; does nothing if none is running. */
void exchange_drop(struct gateway *gateway, struct exchange *exchange);
/* Returns whether it is certain that no byte of the request has left this host. */
bool exchange_is_unsent(const struct gateway *gateway, const struct exchange *exchange);

#endif
