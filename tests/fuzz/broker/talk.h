/* talk.h: a stranger at a broker's door: several connections at once, each with manners of its own. */
#ifndef TARRY_TESTS_FUZZ_BROKER_TALK_H
#define TARRY_TESTS_FUZZ_BROKER_TALK_H

#include "guard.h"
#include "make.h"
#include "seen.h"
#include "trace.h"
#include "web.h"

#define PORTS_MAX 4
#define TOKENS_MAX 8
#define CONNECTIONS_MAX 32
#define CODES_MAX 16
#define BODIES_MAX 40 /* numbers of the fields of Reply */

enum manner {
    POLITE, /* requests in good frames, many of them */
    RUDE,   /* a few, then frames against the rules */
    NOISE,  /* HTTP that is none, or hardly */
    LANE,   /* of a session of the stranger's, as a rule */
    API,    /* /v1 and the pages, one request behind the other */
    JOBS,   /* beanstalkd's protocol */
    MANNERS
};

#define STATUSES_MAX 600 /* of HTTP */
#define WORDS_MAX 24     /* that replies of beanstalkd's begin with */
extern const char *const talk_words[WORDS_MAX];

struct connection {
    int fd; /* -1: none */
    enum manner manner;
    uint32_t number;            /* in the trace */
    struct web_reader reader;   /* API, JOBS: what has come lies in `reader.in` */
    struct out out;             /* not yet sent */
    const char *token;          /* API: that it shows; NULL: none */
    bool looks;                 /* API: nothing is learned from its answers */
    bool trickles;              /* API, JOBS: sends a few bytes at a time */
    unsigned left;              /* so many more messages */
    unsigned waiting;           /* so many answers to come, as far as can be known */
    bool deaf;                  /* does not read */
    bool is_last;               /* closes once everything is sent, and a moment later */
    uint32_t heard, heard_told; /* messages; and how many of them the trace knows of */
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
    uint16_t ports[PORTS_MAX]; /* those of beanstalkd's protocol last */
    size_t port_count;         /* of the others */
    size_t jobs_count;
    const char *tokens[TOKENS_MAX]; /* which a connection may show */
    size_t token_count;
    bool plain_uri;
    uint64_t promotes_once_in; /* so many requests may one change who leads; 0: never */
    uint64_t requests_max, end_ms;
    struct connection connections[CONNECTIONS_MAX];
    uint32_t opened;
    uint64_t next_ms[MANNERS]; /* before that no other one is opened */
    /* What came of it. */
    uint64_t requests, noises, answers, bytes;
    uint64_t codes[BODIES_MAX][CODES_MAX]; /* answers, by body and code */
    uint64_t results[CODES_MAX];           /* operations, by code */
    uint64_t deliveries;
    uint64_t statuses[STATUSES_MAX]; /* of HTTP */
    uint64_t words[WORDS_MAX];       /* of beanstalkd's replies */
    bool refused;                    /* nobody listens any more */
};

/* Everything above `know` is set, and `port_count`, `requests_max`, `end_ms`. Until one of these two is reached, or
 * nobody listens. */
void talk_run(struct talk *talk);
uint64_t talk_now_ms(void);

/* Of its insides: what a connection says next, into `out` (say.c). */
void say_opening(struct talk *talk, struct connection *connection);
void say_more(struct talk *talk, struct connection *connection);
/* What it makes of a whole message (hear.c). May open a lane. */
void hear_message(struct talk *talk, struct connection *connection);
/* API, JOBS: bytes have come, which lie in reader.in. */
void hear_text(struct talk *talk, struct connection *connection);
void talk_open_lane(struct talk *talk, uint32_t lane, const char *secret);

#endif
