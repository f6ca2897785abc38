/* ledger.h: the knowledge of the clients of a history: their requests, the replies, the replies that a naive model
 * predicts, and the deliveries that consumers saw. The ledger is outside of the broker and is compared with it. */
#ifndef TARRY_TESTS_SIM_LEDGER_H
#define TARRY_TESTS_SIM_LEDGER_H

#include "flat.h"
#include "network.h"

struct world;
struct client;
struct frame_note;

/* Predicted reply to a commit with a single operation, or to a Get. If a node executes the request again, the
 * prediction is renewed. */
struct prediction {
    bool predicted;
    uint32_t executions;   /* number of executions of a Get */
    bool may_be_forgotten; /* true: the task has ended, so the broker may have forgotten its outcome (TRUE-1) */
    Tarry__Code code;
    Tarry__Outcome outcome;
    uint64_t id;       /* predicted id of the task; 0: no prediction */
    uint64_t ended_ms; /* predicted time of the task's end; valid if may_be_forgotten is set */
    bool redacted;     /* true: the content in the reply to a Get may be redacted; valid if may_be_forgotten is set */
    const struct core_past *past; /* for a commit that redacts: one entry per operation */
    uint64_t count, left;         /* predicted numbers of tasks; valid with the outcome REDACTED */
};

struct request {
    struct client *client;
    Tarry__Request *body;
    struct core_content *contents; /* contents of the commit's tasks, one for each operation */
    uint64_t number;               /* number by which the trace names the request */
    uint32_t tries;
    uint32_t node;     /* node that the request was sent to last */
    uint64_t asked_ns; /* time at which the request was made */
    bool answered;     /* true: the client expects no further reply */

    struct prediction predictions[HOSTS_MAX]; /* predicted replies, indexed by the node that executes the request */
    uint8_t *answer;                          /* packed CommitReply */
    size_t answer_size;
};

struct ledger_task {     /* what is known about a task outside of the broker */
    bool accepted;       /* true: the client got the reply to the schedule of the task */
    bool seen;           /* true: a consumer got the task */
    bool over;           /* true: a client got the reply to an ack or a cancel of the task */
    uint32_t deliveries; /* number of deliveries that the reply to the ack or cancel named */
    uint32_t token_epoch;
    uint64_t token_position; /* FENCE-1: position of the latest lease whose delivery left */
    uint64_t left_ns;        /* true time at which the latest lease's delivery first left */
    uint64_t jumped_ns;      /* world.steady_jumped_ns at the time `left_ns` */
    uint64_t deadline_ms;    /* deadline of the lease, as the broker sent it to the consumer */
    uint64_t lasts_ns;       /* time from the delivery to the lease's deadline */
};

struct ledger_origin {    /* facts about a task in the log that only the simulator knows */
    uint64_t received_ns; /* true time at which the broker took the request that set the due time; 0: not known */
    uint64_t due_ms;      /* this field and the next two are valid if received_ns is set */
    uint64_t jumped_ns;   /* world.steady_jumped_ns at the time `received_ns` */
    uint64_t delay_ns;
    const struct core_content *content; /* the content as the client sent it */
};
struct ledger_news { /* new value of a task's ledger_origin, stored with the frame that changed it */
    uint64_t id;
    struct ledger_origin origin;
};

struct ledger {
    struct ledger_task tasks[FLAT_TASKS_MAX]; /* what is known about each task, indexed by id */
    uint64_t task_end;                        /* all ids below this one have been used */
    uint64_t requests;
    uint64_t answers;
    uint64_t deliveries;
    uint64_t refusals;
};

void ledger_begin(struct world *world);
/* ---- called by the host */
/* Predicts the reply to a request just before the core decides; due timers have run already. */
void ledger_predict(struct world *world, struct request *request);
void ledger_on_frame(struct world *world, struct frame_note *note, const struct core_content *const *contents,
                     size_t content_count);
/* Notes what the records of an applied frame say about tasks, whichever node decided the frame. */
void ledger_take_frame(struct world *world, const struct frame_note *note);
/* Notes all frames that end at or below `position`. */
void ledger_take_frames(struct world *world, uint64_t position);
/* Corrects the ledger after a crash that has lost frames. `head`: the state that is left. */
void ledger_on_loss(struct world *world, const struct flat *head);
/* Checks and notes a delivery that leaves the broker now. */
void ledger_on_departure(struct world *world, const struct core_delivered *task, const ProtobufCBinaryData *content);
/* ---- called by the clients */
void ledger_on_answer(struct world *world, struct request *request, const struct answer *answer);
void ledger_on_arrival(struct world *world, const struct core_delivered *task);
/* ---- at the end: no accepted task is lost, and no task whose end was confirmed is live */
void ledger_check(const struct world *world);

#endif
