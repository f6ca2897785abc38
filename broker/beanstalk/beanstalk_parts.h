/* beanstalk_parts.h: declarations shared by the files of beanstalkd's protocol; no other file includes it. Door's
 * thread only. */
#ifndef TARRY_BEANSTALK_PARTS_H
#define TARRY_BEANSTALK_PARTS_H

#include <sys/queue.h>

#include "beanstalk.h"
#include "beanstalk_parser.h"
#include "beanstalk_text.h"
#include "beanstalk_tubes.h"
#include "row.h"
#include "tarry_limits.h"

/* Time before the end of a reservation, at which a waiting client gets DEADLINE_SOON. */
#define BEANSTALK_MARGIN_MS 1000u
/* Duration of the broker's leases, which are extended. After tarryd dies, reserved jobs are ready again within this
 * time. */
#define BEANSTALK_LEASE_MS 10000u
/* Maximum wait for the lease of the job that was chosen as the first of several tubes. On a slow disk the lease takes
 * as long as a sync. A reserve that gave up earlier would take a job of any watched tube, not the job with the lowest
 * pri. */
#define BEANSTALK_CHOSEN_WAIT_MS 10000u
/* Time that reserve-job waits for the job that it moved to the front of its tube. */
#define BEANSTALK_JOB_WAIT_MS 1000u
/* Maximum number of watched tubes whose jobs are compared. A connection that watches more tubes takes jobs from them in
 * turns. */
#define BEANSTALK_CHOOSE_MAX 16u
#define BEANSTALK_ANY_TUBE UINT32_MAX
/* Time in ms for which the broker relies on its knowledge that all ready jobs of a tube have ranks. */
#define BEANSTALK_TURN_MS 100u
/* Maximum number of result pages searched for the first ready job. The index may list jobs that were leased after the
 * index was last written. */
#define BEANSTALK_LOOK_PAGES_MAX 8u
/* Maximum number of times that one reserve ranks a job. After that, the job is delivered unranked. */
#define BEANSTALK_RANKS_MAX 16u
/* Time in ms after which a waiting reserve is sure that no job was ready when the reserve started. */
#define BEANSTALK_FIRST_LOOK_MS 100u
/* Number of jobs per result page in a search for the first buried job, and in a kick. */
#define BEANSTALK_PAGE 1000u
/* Number of jobs on the first result page when only the first job is wanted. */
#define BEANSTALK_FEW BEANSTALK_SEEN_MAX
/* Maximum number of tubes whose urgent jobs `stats` counts. */
#define BEANSTALK_URGENT_TUBES_MAX 64u

/* A job that a connection has reserved. */
struct beanstalk_reserved {
    TAILQ_ENTRY(beanstalk_reserved) all; /* entry in the connection's list of reserved jobs */
    uint64_t id;
    uint32_t epoch; /* epoch of the lease's token */
    uint64_t position;
    struct beanstalk_job job;
    uint64_t deadline_ms;    /* end of the job's TTR */
    uint64_t lease_until_ms; /* end of the lease, which is longer than the TTR, and is extended */
    uint64_t lease;          /* handle for gateway_left, which must be called once */
    bool is_settling;        /* a command of the connection is settling the job */
    char tube[QUEUE_NAME_SIZE_MAX + 1];
};
TAILQ_HEAD(beanstalk_reserved_list, beanstalk_reserved);

struct beanstalk_connection;
/* Callback with the first job that was found. `first` is NULL if no job was found. If `is_known` is then false, the
 * search failed, and a job may still exist. */
typedef void beanstalk_looked(struct beanstalk_connection *connection, const Tarry__TaskView *first, bool is_known);

struct beanstalk_connection {
    TAILQ_ENTRY(beanstalk_connection) all;
    struct beanstalk *server;
    uint64_t id;
    uint64_t principal;
    struct beanstalk_parser parser;
    uint8_t *input; /* input that arrived while a command was running */
    size_t input_size;
    size_t input_at;
    struct beanstalk_tube *used;
    struct beanstalk_tube *watched[BEANSTALK_WATCHED_MAX];
    uint32_t watched_count;
    struct beanstalk_reserved_list reserved;
    uint32_t reserved_count;
    uint64_t timer;    /* handle of the timer for the next deadline; 0: none */
    uint64_t timer_ms; /* deadline for which `timer` is set */
    /* Until this time, no TTR ends. After a pause of the process (for example SIGSTOP), waiting commands are so
     * executed before a TTR ends. */
    uint64_t settles_ms;

    /* The running command; its `tube` and `body` pointers are no longer valid. */
    struct beanstalk_command command;
    uint64_t asked;                      /* handle of the awaited reply; 0: none */
    struct beanstalk_reserved *settling; /* the member of `reserved` that the command settles */
    struct text yaml;

    /* State of reserve and reserve-job. */
    uint64_t lease; /* handle of the awaited lease; 0: none */
    uint64_t wait_began_ms;
    uint64_t wait_until_ms;          /* time at which a waiting reserve gives up; UINT64_MAX: never */
    uint64_t wanted;                 /* reserve-job: id of the wanted job; 0: any job */
    struct beanstalk_reserved *held; /* a leased job, while it is checked whether another job precedes it */
    struct message *held_message;
    unsigned ranks;
    uint32_t choosing;   /* index of the watched tube whose first job is being searched */
    uint32_t chosen;     /* index of the watched tube with the first job of all tubes searched until now;
                            BEANSTALK_ANY_TUBE: none */
    unsigned look_pages; /* number of result pages that look_for_first has requested */
    uint64_t chosen_due_ms;
    uint64_t chosen_id;
    /* Tube whose cache look_for_first will fill with the result of its search; NULL: none. */
    struct beanstalk_tube *look_into;
    uint64_t look_version; /* value of the tube's `changes` when look_for_first began */
    /* Tube that another connection is searching for its first jobs; this connection waits for the result; NULL:
     * none. */
    struct beanstalk_tube *awaits_look;
    /* Entry in the list `lookers` of the tube `awaits_look`; valid while `awaits_look` is not NULL. */
    TAILQ_ENTRY(beanstalk_connection) in_lookers;
    const char *look_tube; /* arguments of look_for_first while it runs */
    uint64_t look_from_ms;
    uint64_t look_to_ms;
    beanstalk_looked *looked;
    gateway_reply *committed;           /* callback of connection_commit while it runs */
    struct beanstalk_tube *changes_one; /* the tube into which the running commit puts jobs, if there is only one */
    bool changes_any;                   /* the running commit may change the order in any tube */
    uint64_t undo_ms;                   /* reserve-job: the job's original due time, which undo_first restores */
    uint32_t undo_priority;

    uint64_t done; /* kick: number of jobs kicked until now */

    /* counts of stats and stats-tube, while urgent jobs are counted tube by tube */
    struct beanstalk_counts counts;
    char (*urgent_tubes)[QUEUE_NAME_SIZE_MAX + 1];
    uint32_t urgent_count;
    uint32_t urgent_at;
    uint64_t paused_until_ms;
    uint64_t now_ms; /* the broker's time, from its reply */
    size_t tube_count;

    bool is_busy;    /* a command is running */
    bool is_running; /* connection_run is on the call stack */
    bool is_ended;   /* the client has quit, or has shut down its sending side and has got all replies */
    bool is_deaf;    /* the client has shut down its sending side */
    bool has_left;   /* the connection's jobs are released, and it is in no list */
    bool is_producer;
    bool is_worker;
    bool is_waiting; /* the connection is counted as waiting in a reserve */
    bool kicks_buried;
    char peer[PEER_SIZE_MAX + 1];
    char tube[BEANSTALK_TUBE_MAX + 1]; /* the running command's tube */
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
    uint64_t changes; /* number of times that jobs were added, removed or moved in any tube */
    uint64_t burials; /* burials since startup */
    uint64_t connections_total;
    uint32_t connection_count;
    uint32_t waiting;
    uint64_t started_ms;
    char id[17];
};

/* Returns the whole seconds left, as beanstalkd would. beanstalkd counts in ns and rounds down: a TTR of 10 s has 9 s
 * left a moment later. `until_ms` was rounded up and `now_ms` was rounded down, so 2 ms are subtracted. */
static inline uint64_t beanstalk_left_s(uint64_t until_ms, uint64_t now_ms) {
    return until_ms > now_ms + 2 ? (until_ms - now_ms - 2) / 1000 : 0;
}

/* ---- beanstalk.c */
uint64_t beanstalk_now_ms(void);  /* returns CLOCK_BOOTTIME in ms, for deadlines */
uint64_t beanstalk_wall_ms(void); /* returns Unix time in ms, for ages */
void connection_reply(struct beanstalk_connection *connection, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Makes a reply "WORD id size" with a body. NULL: out of memory. */
struct message *job_message(const char *word, uint64_t id, const void *body, size_t size);
void connection_send(struct beanstalk_connection *connection, struct message *message);
/* Sends "OK size" and connection->yaml. */
void connection_reply_yaml(struct beanstalk_connection *connection);
/* Ends the running command and starts the next one. */
void connection_finish(struct beanstalk_connection *connection);
/* Ends the running command with this reply. */
void connection_answer(struct beanstalk_connection *connection, const char *line);
/* Ends the running command with the reply for the broker's refusal. */
void connection_refuse(struct beanstalk_connection *connection, Tarry__Code code);
struct gateway_caller connection_caller(const struct beanstalk_connection *connection);
void connection_ask(struct beanstalk_connection *connection, Tarry__Request *request, gateway_reply *reply);
/* Requests a task by its id. */
void connection_get(struct beanstalk_connection *connection, uint64_t id, bool with_content, gateway_reply *reply);
void connection_list(struct beanstalk_connection *connection, Tarry__List *list, gateway_reply *reply);
void connection_commit(struct beanstalk_connection *connection, Tarry__Op *ops, size_t count, gateway_reply *reply);
/* Returns true if the reply is present and not a refusal. Otherwise sends the error to the client and returns false. */
bool reply_is_fine(struct beanstalk_connection *connection, const Tarry__Reply *reply);
/* Returns the code of the operation at `index`: OK, NOT_DONE … */
Tarry__Code result_code(const Tarry__Reply *reply, size_t index);

/* ---- beanstalk_reserve.c */
/* An operation that gives a job its rank (beanstalk_text.h): moves the task to an artificial due time and sets its
 * priority. */
struct ranking {
    Tarry__Op op;
    Tarry__Move move;
    Tarry__Ref ref;
    Tarry__When when;
};
void ranking_init(struct ranking *ranking, uint64_t id, uint64_t due_ms, uint32_t priority);
void reserve_begin(struct beanstalk_connection *connection);
void reserve_job_begin(struct beanstalk_connection *connection);
/* Ends a waiting reserve after the client has shut down its sending side. The reserve gets a job that is ready, or
 * TIMED_OUT. */
void reserve_hurry(struct beanstalk_connection *connection);
/* Cancels a waiting reserve because the connection ends. */
void reserve_abandon(struct beanstalk_connection *connection);

/* ---- beanstalk_held.c: jobs that connections have reserved */
struct beanstalk_reserved *held_find(const struct beanstalk_connection *connection, uint64_t id);
void held_add(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved);
/* Writes the token of the job's lease. */
void held_token(const struct beanstalk_reserved *reserved, Tarry__Token *out);
/* Removes the job from the connection's reserved jobs, and frees the entry. */
void held_drop(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved);
void held_touch(struct beanstalk_connection *connection, struct beanstalk_reserved *reserved);
/* Returns the earliest end of a reservation; UINT64_MAX: no reservation. */
uint64_t held_soonest_ms(const struct beanstalk_connection *connection);
/* Releases all reserved jobs of a connection that has ended. */
void held_give_back(struct beanstalk_connection *connection);

/* ---- beanstalk_jobs.c */
void put_begin(struct beanstalk_connection *connection, const struct beanstalk_command *command);
void delete_begin(struct beanstalk_connection *connection);
void release_begin(struct beanstalk_connection *connection);
void bury_begin(struct beanstalk_connection *connection);
void touch_begin(struct beanstalk_connection *connection);
void kick_begin(struct beanstalk_connection *connection);
void kick_job_begin(struct beanstalk_connection *connection);
/* Operations that make a delayed or buried job ready. */
struct kicked {
    Tarry__DeadOp dead;
    struct ranking ranking;
};
/* Appends the operations to `ops`. Returns the number of operations, at most two. */
size_t kick_ops(struct kicked *kicked, uint64_t id, bool is_dead, uint64_t due_ms, uint32_t priority, Tarry__Op *ops);
void peek_begin(struct beanstalk_connection *connection);
void stats_job_begin(struct beanstalk_connection *connection);

/* ---- beanstalk_stats.c */
void stats_begin(struct beanstalk_connection *connection);
void stats_tube_begin(struct beanstalk_connection *connection);
void list_tubes_begin(struct beanstalk_connection *connection);
void pause_begin(struct beanstalk_connection *connection);

#endif
