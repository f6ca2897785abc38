/* ledger.h: what the clients of a history know: what they asked, what was answered, what a naive model predicts, what
 * consumers have seen. Kept outside the broker, and compared with it. */
#ifndef TARRY_TESTS_SIM_LEDGER_H
#define TARRY_TESTS_SIM_LEDGER_H

#include "flat.h"
#include "network.h"

struct world;
struct client;
struct frame_note;

/* Of the single operation of a commit, or of a Get; as of its (last) execution at one node. */
struct prediction {
    bool predicted;
    uint32_t executions;   /* of a Get */
    bool may_be_forgotten; /* it concerns an ending: the broker may remember no more (TRUE-1) */
    Tarry__Code code;
    Tarry__Outcome outcome;
    uint64_t id;                  /* 0: not predicted */
    uint64_t ended_ms;            /* valid with may_be_forgotten */
    bool redacted;                /* likewise, of a Get */
    const struct core_past *past; /* of a commit that redacts, one per operation */
    uint64_t count, left;         /* valid with the outcome REDACTED */
};

struct request {
    struct client *client;
    Tarry__Request *body;
    struct core_content *contents; /* of a commit, one per operation */
    uint64_t number;               /* for the trace */
    uint32_t tries;
    uint32_t node;     /* that it was sent to last */
    uint64_t asked_ns; /* when it came into being */
    bool answered;     /* nothing more is expected */

    struct prediction predictions[HOSTS_MAX]; /* by the node that executes */
    uint8_t *answer;                          /* packed CommitReply */
    size_t answer_size;
};

struct ledger_task {     /* what is known outside of the task with that id */
    bool accepted;       /* its schedule was answered */
    bool seen;           /* a consumer got it */
    bool over;           /* an ack or cancel of it was answered … */
    uint32_t deliveries; /* … and that it had left so often */
    uint32_t token_epoch;
    uint64_t token_position; /* FENCE-1: of its youngest lease that left */
    uint64_t left_ns;        /* the truth, when that lease left first */
    uint64_t jumped_ns;      /* world.steady_jumped_ns then */
    uint64_t deadline_ms;    /* the lease's, as its consumer was told … */
    uint64_t lasts_ns;       /* … and so long after it left */
};

struct ledger_origin {    /* what only the rig knows of a task in a log */
    uint64_t received_ns; /* the truth, when the broker took the request that gave it its due time; 0: unknown */
    uint64_t due_ms;      /* valid with received_ns, like what follows */
    uint64_t jumped_ns;   /* world.steady_jumped_ns then */
    uint64_t delay_ns;
    const struct core_content *content; /* as it was sent */
};
struct ledger_news { /* … and how a frame changes it */
    uint64_t id;
    struct ledger_origin origin;
};

struct ledger {
    struct ledger_task tasks[FLAT_TASKS_MAX]; /* [id] */
    uint64_t task_end;                        /* ids below it have been used */
    uint64_t requests;
    uint64_t answers;
    uint64_t deliveries;
    uint64_t refusals;
};

void ledger_begin(struct world *world);
/* ---- from the host */
/* Right before the core decides; time has been let pass already. */
void ledger_predict(struct world *world, struct request *request);
void ledger_on_frame(struct world *world, struct frame_note *note, const struct core_content *const *contents,
                     size_t content_count);
/* The host's state goes on over that frame, whoever decided it. */
void ledger_take_frame(struct world *world, const struct frame_note *note);
/* What all frames below `position` say. */
void ledger_take_frames(struct world *world, uint64_t position);
/* Frames were lost at a crash: `head` is what is left. */
void ledger_on_loss(struct world *world, const struct flat *head);
/* It leaves the broker now. */
void ledger_on_departure(struct world *world, const struct core_delivered *task, const ProtobufCBinaryData *content);
/* ---- from the clients */
void ledger_on_answer(struct world *world, struct request *request, const struct answer *answer);
void ledger_on_arrival(struct world *world, const struct core_delivered *task);
/* ---- at the end: nothing accepted is lost, nothing that was said to have ended lives. */
void ledger_check(const struct world *world);

#endif
