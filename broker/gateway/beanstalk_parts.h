/* beanstalk_parts.h: what the files of beanstalkd's protocol share; no other file includes it. Everything is the door's
 * thread's own. */
#ifndef TARRY_GATEWAY_BEANSTALK_PARTS_H
#define TARRY_GATEWAY_BEANSTALK_PARTS_H

#include <sys/queue.h>

#include "beanstalk.h"
#include "beanstalk_job.h"
#include "beanstalk_notes.h"
#include "beanstalk_parser.h"
#include "beanstalk_text.h"
#include "beanstalk_tubes.h"
#include "row.h"
#include "tarry_limits.h"

/* So long before a reserved job's time is over a client that waits is told DEADLINE_SOON. */
#define BEANSTALK_MARGIN_MS 1000u
/* Of the broker's leases, which are extended: what a tarryd that died had reserved is ready again that soon. */
#define BEANSTALK_LEASE_MS 10000u
/* How long reserve-job waits for what it has put first in its tube. */
#define BEANSTALK_JOB_WAIT_MS 1000u
/* A connection that watches more tubes takes from them in turns. */
#define BEANSTALK_CHOOSE_MAX 16u
#define BEANSTALK_ANY_TUBE UINT32_MAX
/* So long it is believed that all ready jobs of a tube are ranked. */
#define BEANSTALK_TURN_MS 100u
/* Pages that the first ready job is looked for on: the index has what was leased since its last write. */
#define BEANSTALK_LOOK_PAGES_MAX 8u
/* A job is ranked so often by one reserve; then it is delivered as it comes. */
#define BEANSTALK_RANKS_MAX 16u
/* A reserve that has waited for longer has found nothing that was ready when it came. */
#define BEANSTALK_FIRST_LOOK_MS 100u
/* Jobs of one page: of the buried, the first of which is looked for, and of those that are kicked together. */
#define BEANSTALK_PAGE 1000u
/* … of which the first is wanted. */
#define BEANSTALK_FEW BEANSTALK_SEEN_MAX
/* Tubes whose urgent jobs `stats` counts. */
#define BEANSTALK_URGENT_TUBES_MAX 64u

/* A job that a connection has reserved. */
struct beanstalk_reserved {
    TAILQ_ENTRY(beanstalk_reserved) all; /* of its connection */
    uint64_t id;
    uint32_t epoch; /* of the lease's token */
    uint64_t position;
    struct beanstalk_job job;
    uint64_t deadline_ms;    /* of the TTR */
    uint64_t lease_until_ms; /* of the lease, which is longer, and made longer */
    uint64_t lease;          /* of the gateway: gateway_left is said, once */
    bool is_settling;        /* a command of its connection is about it */
    char tube[QUEUE_NAME_SIZE_MAX + 1];
};
TAILQ_HEAD(beanstalk_reserved_list, beanstalk_reserved);

struct beanstalk_connection;
/* `first` NULL: there is none, if that is known. */
typedef void beanstalk_looked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known);

struct beanstalk_connection {
    TAILQ_ENTRY(beanstalk_connection) all;
    struct beanstalk *server;
    uint64_t id;
    uint64_t principal;
    struct beanstalk_parser parser;
    uint8_t *input; /* what came while a command was under way */
    size_t input_size;
    size_t input_at;
    struct beanstalk_tube *used;
    struct beanstalk_tube *watched[BEANSTALK_WATCHED_MAX];
    uint32_t watched_count;
    struct beanstalk_reserved_list reserved;
    uint32_t reserved_count;
    uint64_t timer;      /* of the next deadline; 0: none */
    uint64_t timer_ms;   /* … which that is */
    uint64_t settles_ms; /* no TTR is over before */

    /* The command under way. Its own tube and body are gone. */
    struct beanstalk_command command;
    uint64_t asked;                      /* a reply is awaited; 0: none */
    struct beanstalk_reserved *settling; /* of `reserved` */
    struct beanstalk_text yaml;

    /* reserve, reserve-job */
    uint64_t lease; /* a task is awaited; 0: none */
    uint64_t wait_began_ms;
    uint64_t wait_until_ms;          /* UINT64_MAX: for ever */
    uint64_t wanted;                 /* reserve-job's; 0: any */
    struct beanstalk_reserved *held; /* leased, and it is found out whether it is the next */
    struct message *held_message;
    unsigned ranks;
    uint32_t choosing;   /* of several watched tubes: the one that is looked at */
    uint32_t chosen;     /* … the one whose first job is the least so far; BEANSTALK_ANY_TUBE: none */
    unsigned look_pages; /* look_for_first's, while it is under way */
    uint64_t chosen_due_ms;
    uint64_t chosen_id;
    struct beanstalk_tube *look_into; /* what is found is remembered of it; NULL: nowhere */
    uint64_t look_version;            /* of it, as the look began */
    const char *look_tube;            /* look_for_first's, while it is under way */
    uint64_t look_from_ms;
    uint64_t look_to_ms;
    beanstalk_looked *looked;
    gateway_reply *committed;           /* connection_commit's, while it is under way */
    struct beanstalk_tube *changes_one; /* … which puts into this tube alone */
    bool changes_any;                   /* … or may change the order within any */
    Tarry__When undo;                   /* reserve-job: where the job was */
    uint32_t undo_priority;

    uint64_t done; /* kick: so many so far */

    /* stats, stats-tube: urgent jobs are counted tube by tube */
    struct beanstalk_counts counts;
    char (*urgent_tubes)[QUEUE_NAME_SIZE_MAX + 1];
    uint32_t urgent_count;
    uint32_t urgent_at;
    uint64_t paused_until_ms;
    uint64_t now_ms; /* the broker's, as it answered */
    size_t tube_count;

    bool is_busy;    /* a command is under way */
    bool is_running; /* in connection_run */
    bool is_ended;   /* quit, or the client sends nothing more and all is answered */
    bool is_deaf;    /* the client has shut down its sending side */
    bool has_left;   /* what it held is given back; it is in no list */
    bool is_producer;
    bool is_worker;
    bool is_waiting; /* with a reserve: counted as such */
    bool kicks_buried;
    char peer[PEER_SIZE_MAX + 1];
    char tube[BEANSTALK_TUBE_MAX + 1]; /* of the command under way */
};
TAILQ_HEAD(beanstalk_connection_list, beanstalk_connection);

struct beanstalk {
    struct gateway *gateway;
    struct door *door;
    struct door_stream_calls calls;
    struct beanstalk_connection_list connections;
    struct beanstalk_tubes tubes;
    struct beanstalk_notes notes;
    uint64_t commands[BEANSTALK_KINDS];
    uint64_t timeouts;
    uint64_t changes; /* so often jobs have come, gone or changed their places, in whatever tube */
    uint64_t burials; /* since tarryd's start */
    uint64_t connections_total;
    uint32_t connection_count;
    uint32_t waiting;
    uint64_t started_ms;
    char id[17];
};

/* Whole seconds that are left, rounded down, as beanstalkd does it, which counts nanoseconds: of 10 s there are 9 from
 * the first moment on. Here the end was rounded up to a millisecond, and now is rounded down to one. */
static inline uint64_t beanstalk_left_s(uint64_t until_ms, uint64_t now_ms) {
    return until_ms > now_ms + 2 ? (until_ms - now_ms - 2) / 1000 : 0;
}

/* ---- beanstalk.c */
uint64_t beanstalk_now_ms(void);  /* CLOCK_BOOTTIME: deadlines */
uint64_t beanstalk_wall_ms(void); /* Unix: ages */
void connection_reply(struct beanstalk_connection *connection, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "WORD id size", and the body. NULL: no memory. */
struct message *job_message(const char *word, uint64_t id, const void *body, size_t size);
void connection_send(struct beanstalk_connection *connection, struct message *message);
/* "OK size", and connection->yaml. */
void connection_reply_yaml(struct beanstalk_connection *connection);
/* The command is done: the next one. */
void connection_finish(struct beanstalk_connection *connection);
/* … with this reply. */
void connection_answer(struct beanstalk_connection *connection, const char *line);
/* … because the broker has refused. */
void connection_refuse(struct beanstalk_connection *connection, Tarry__Code code);
struct gateway_caller connection_caller(const struct beanstalk_connection *connection);
void connection_ask(struct beanstalk_connection *connection, Tarry__Request *request, gateway_reply *reply);
/* Asks for a task by its id. */
void connection_get(struct beanstalk_connection *connection, uint64_t id, bool with_content, gateway_reply *reply);
void connection_list(struct beanstalk_connection *connection, Tarry__List *list, gateway_reply *reply);
void connection_commit(struct beanstalk_connection *connection, Tarry__Op *ops, size_t count, gateway_reply *reply);
/* False: the reply is missing, or a refusal, and the client has been told. */
bool reply_is_fine(struct beanstalk_connection *connection, const Tarry__Reply *reply);
/* The code of the operation: OK, NOT_DONE … */
Tarry__Code result_code(const Tarry__Reply *reply, size_t index);

/* ---- beanstalk_reserve.c */
void reserve_begin(struct beanstalk_connection *connection);
void reserve_job_begin(struct beanstalk_connection *connection);
/* Leases from this one of the watched tubes what is ready now, or waits for all of them: BEANSTALK_ANY_TUBE. */
void reserve_from(struct beanstalk_connection *connection, uint32_t tube);
/* The client sends nothing more: a reserve that waits is answered with what is ready, or TIMED_OUT. */
void reserve_hurry(struct beanstalk_connection *connection);
/* What waits is given up; the connection goes. */
void reserve_abandon(struct beanstalk_connection *connection);

/* ---- beanstalk_choose.c: calls reserve_from, with the tube that has the least job */
void choose_begin(struct beanstalk_connection *connection);
/* A job of this tube has been leased. */
void choose_took(struct beanstalk *server, const char *tube, uint64_t id);
/* The first ready job of a tube that is due from from_ms on and before to_ms (0: no end). `tube` must last until
 * `looked` is called. */
void look_for_first(struct beanstalk_connection *connection, const char *tube, uint64_t from_ms, uint64_t to_ms,
                    beanstalk_looked *looked);

/* ---- beanstalk_held.c: what connections have reserved */
struct beanstalk_reserved *held_find(const struct beanstalk_connection *connection, uint64_t id);
void held_add(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved);
/* It is no longer reserved; frees it. */
void held_drop(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved);
void held_touch(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved);
/* When the first of them runs out; UINT64_MAX: there is none. */
uint64_t held_soonest_ms(const struct beanstalk_connection *connection);
/* The connection has gone: all of them are ready again. */
void held_give_back(struct beanstalk_connection *connection);

/* ---- beanstalk_settle.c */
void put_begin(struct beanstalk_connection *connection, const struct beanstalk_command *command);
void delete_begin(struct beanstalk_connection *connection);
void release_begin(struct beanstalk_connection *connection);
void bury_begin(struct beanstalk_connection *connection);
void touch_begin(struct beanstalk_connection *connection);

/* ---- beanstalk_kick.c */
void kick_begin(struct beanstalk_connection *connection);
void kick_job_begin(struct beanstalk_connection *connection);
/* As qsort's comparison: the one that was buried first. */
int burial_order(const struct beanstalk *server, const Tarry__TaskView *a, const Tarry__TaskView *b);

/* ---- beanstalk_look.c */
void peek_begin(struct beanstalk_connection *connection);
void stats_job_begin(struct beanstalk_connection *connection);
/* The pri of a task, from its place, its note, its content. */
uint32_t view_pri(const struct beanstalk *server, const Tarry__TaskView *view, const struct beanstalk_job *job);

/* ---- beanstalk_stats.c */
void stats_begin(struct beanstalk_connection *connection);
void stats_tube_begin(struct beanstalk_connection *connection);
void list_tubes_begin(struct beanstalk_connection *connection);
void pause_begin(struct beanstalk_connection *connection);

#endif
