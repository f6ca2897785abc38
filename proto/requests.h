/* requests.h: what requests.def says about a request or an operation, for code that has its message. Pure. The switches
 * have no default, so a message of tarry.proto without an entry in requests.def does not compile. */
#ifndef TARRY_PROTO_REQUESTS_H
#define TARRY_PROTO_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* Ends a switch over Request.body_case or Op.op_case that has a case for each entry. An unknown number leads to no
 * case. */
#define REQUEST_UNKNOWN                                                                                                \
    case TARRY__REQUEST__BODY__NOT_SET:                                                                                \
    case _TARRY__REQUEST__BODY__CASE_IS_INT_SIZE:                                                                      \
        break;
#define OPERATION_UNKNOWN                                                                                              \
    case TARRY__OP__OP__NOT_SET:                                                                                       \
    case _TARRY__OP__OP__CASE_IS_INT_SIZE:                                                                             \
        break;

/* ---- requests */

enum request_class {
    CLASS_QUESTION, /* only reads; a follower and an inspected broker answer it too; Request.at_least applies */
    CLASS_CHANGE,   /* changes producers, tasks or queues */
    CLASS_SESSION,  /* concerns a consumer's session */
    CLASS_LOG,      /* copies the log and the index */
    CLASS_PAIR,     /* concerns the nodes of a pair */
};

enum request_answerer {
    BY_NOBODY,  /* an unknown request */
    BY_CORE,    /* the core thread, with a struct core_event */
    BY_LANES,   /* the door (broker/net/door.h), with shell/threads/lanes.h */
    BY_AUDITOR, /* shell/jobs/auditor.h reads the log */
    BY_BACKUP,  /* shell/jobs/backup.h */
    BY_LEADER,  /* the leader's half of shell/pair/node.h, for the follower */
    BY_NODE,    /* shell/door/stats.h, in every role of the node */
};

static inline enum request_answerer request_answerer(const Tarry__Request *request) {
    switch (request->body_case) {
#define REQUEST(CASE, member, Message, class, answerer, ...)                                                           \
    case TARRY__REQUEST__BODY_##CASE:                                                                                  \
        return answerer;
#include "requests.def"
        REQUEST_UNKNOWN
    }
    return BY_NOBODY;
}

static inline bool request_is_question(const Tarry__Request *request) {
    switch (request->body_case) {
#define REQUEST(CASE, member, Message, class, ...)                                                                     \
    case TARRY__REQUEST__BODY_##CASE:                                                                                  \
        return class == CLASS_QUESTION;
#include "requests.def"
        REQUEST_UNKNOWN
    }
    return false;
}

/* ---- operations */

/* How an operation names its task or queue. */
enum op_target {
    NAMES_NOTHING,    /* an unknown operation */
    NAMES_NEW_TASK,   /* `queue` and `key` of a task that it may create */
    NAMES_TASK,       /* `task`: a Ref to a live task or a dead letter */
    NAMES_DEAD_TASK,  /* `task`: a Ref to a dead letter, or with `all` its queue */
    NAMES_PAST_TASKS, /* `task`: a Ref to tasks that have ended */
    NAMES_LEASE,      /* `id` and `token` */
    NAMES_QUEUE,      /* `queue` */
    NAMES_DEFINITION, /* `space` and `name` */
};

static inline enum op_target op_target(const Tarry__Op *op) {
    switch (op->op_case) {
#define OPERATION(CASE, member, Message, target, ...)                                                                  \
    case TARRY__OP__OP_##CASE:                                                                                         \
        return target;
#include "requests.def"
        OPERATION_UNKNOWN
    }
    return NAMES_NOTHING;
}

/* Returns the queue that the reference names; NULL: none, or a task by its id. */
static inline const char *queue_of_ref(const Tarry__Ref *ref) {
    return ref != NULL && ref->id == 0 ? ref->queue : NULL;
}

static inline uint64_t id_of_ref(const Tarry__Ref *ref) {
    return ref != NULL ? ref->id : 0;
}

#define QUEUE_OF_NAMES_NEW_TASK(m) (m)->queue
#define QUEUE_OF_NAMES_TASK(m) queue_of_ref((m)->task)
#define QUEUE_OF_NAMES_DEAD_TASK(m) queue_of_ref((m)->task)
#define QUEUE_OF_NAMES_PAST_TASKS(m) queue_of_ref((m)->task)
#define QUEUE_OF_NAMES_LEASE(m) NULL
#define QUEUE_OF_NAMES_QUEUE(m) (m)->queue
#define QUEUE_OF_NAMES_DEFINITION(m) NULL

/* Returns the queue that the operation names; NULL: none, or a task by its id. */
static inline const char *op_queue(const Tarry__Op *op) {
    switch (op->op_case) {
#define OPERATION(CASE, member, Message, target, ...)                                                                  \
    case TARRY__OP__OP_##CASE:                                                                                         \
        return QUEUE_OF_##target(op->member);
#include "requests.def"
        OPERATION_UNKNOWN
    }
    return NULL;
}

#define ID_OF_NAMES_NEW_TASK(m) 0
#define ID_OF_NAMES_TASK(m) id_of_ref((m)->task)
#define ID_OF_NAMES_DEAD_TASK(m) id_of_ref((m)->task)
#define ID_OF_NAMES_PAST_TASKS(m) id_of_ref((m)->task)
#define ID_OF_NAMES_LEASE(m) (m)->id
#define ID_OF_NAMES_QUEUE(m) 0
#define ID_OF_NAMES_DEFINITION(m) 0

/* Returns the task id that the operation names; 0: none, or a task by queue and key. */
static inline uint64_t op_id(const Tarry__Op *op) {
    switch (op->op_case) {
#define OPERATION(CASE, member, Message, target, ...)                                                                  \
    case TARRY__OP__OP_##CASE:                                                                                         \
        return ID_OF_##target(op->member);
#include "requests.def"
        OPERATION_UNKNOWN
    }
    return 0;
}

#endif
