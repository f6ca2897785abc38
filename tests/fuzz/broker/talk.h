/* talk.h: a stranger: a fuzzing client with several connections at once. Each connection behaves in one manner (enum
 * manner), for example politely, rudely or as a lane. */
#ifndef TARRY_TESTS_FUZZ_BROKER_TALK_H
#define TARRY_TESTS_FUZZ_BROKER_TALK_H

#include "guard.h"
#include "make.h"
#include "pass.h"
#include "seen.h"
#include "trace.h"
#include "web.h"

#define PORTS_MAX 4
#define TOKENS_MAX 8
#define CONNECTIONS_MAX 32
#define CODES_MAX 16
#define BODIES_MAX 40 /* size of the table of answers; greater than any field number in Reply */

enum manner {
    POLITE, /* sends many requests in correct frames */
    RUDE,   /* sends a few requests, then frames that break the rules */
    NOISE,  /* sends data that is not HTTP, or is HTTP with errors */
    LANE,   /* a lane, usually of a session of this stranger */
    API,    /* sends requests for /v1 and for pages, one after another */
    JOBS,   /* beanstalkd's protocol */
    MANNERS
};

#define STATUSES_MAX 600 /* HTTP statuses */
#define WORDS_MAX 24     /* maximum number of different first words of beanstalkd's replies */
extern const char *const talk_words[WORDS_MAX];

struct connection {
    int fd; /* descriptor of the connection; -1: not connected */
    enum manner manner;
    uint32_t number;            /* number of the connection in the trace */
    struct web_reader reader;   /* for manners API and JOBS, only `reader.in` is used, which has the received data */
    struct out out;             /* data to send */
    const char *token;          /* API: the token that it sends; NULL: none */
    bool looks;                 /* API: sends only queries, and learns nothing from their answers */
    bool trickles;              /* API, JOBS: sends a few bytes at a time */
    unsigned left;              /* remaining messages */
    unsigned waiting;           /* number of expected answers, as far as it is known */
    bool deaf;                  /* does not read received data */
    bool is_last;               /* sends nothing more, and closes shortly after everything is sent */
    uint32_t heard, heard_told; /* number of received messages; the value of `heard` that the trace recorded last */
    uint32_t request_id;
    uint64_t opened_ms, heard_ms, close_ms;
};

struct talk {
    struct random random;
    struct know *know;
    struct seen seen;
    struct maker maker;
    struct guard guard;
    struct trace trace;
    struct pass pass;
    uint16_t ports[PORTS_MAX]; /* ports of the brokers, those for beanstalkd's protocol last */
    size_t port_count;         /* number of the ports before those for beanstalkd's protocol */
    size_t jobs_count;
    const char *tokens[TOKENS_MAX]; /* tokens that a connection may send */
    size_t token_count;
    bool plain_uri;
    uint64_t promotes_once_in; /* one request in this number may change the leader; 0: no request may */
    uint64_t requests_max, end_ms;
    struct connection connections[CONNECTIONS_MAX];
    uint32_t opened;
    uint64_t next_ms[MANNERS]; /* for each manner: time before which no new connection is opened */
    /* Results. */
    uint64_t requests, noises, answers, bytes;
    uint64_t codes[BODIES_MAX][CODES_MAX]; /* number of answers, by body and code */
    uint64_t results[CODES_MAX];           /* number of operations, by code */
    uint64_t deliveries;
    uint64_t statuses[STATUSES_MAX]; /* number of HTTP answers, by status */
    uint64_t words[WORDS_MAX];       /* number of beanstalkd's replies, by word */
    bool refused;                    /* the broker no longer listens */
};

/* Runs until `requests_max` or `end_ms` is reached, or until the broker no longer listens. Before the call, set
 * `requests_max`, `end_ms`, `port_count`, and all fields that precede the field `know`. */
void talk_run(struct talk *talk);
uint64_t talk_now_ms(void);

/* For hear.c and talk.c: appends the next data of the connection to `out` (say.c). */
void say_opening(struct talk *talk, struct connection *connection);
void say_more(struct talk *talk, struct connection *connection);
/* Handles a complete message, and may open a lane (hear.c). */
void hear_message(struct talk *talk, struct connection *connection);
/* API, JOBS: handles the bytes in reader.in (hear.c). */
void hear_text(struct talk *talk, struct connection *connection);
void talk_open_lane(struct talk *talk, uint32_t lane, const char *secret);

#endif
