/* requests.h: what requests.def says about a request or an operation, for code that has its message. Pure. The switches
 * have no default, so a message of tarry.proto without an entry in requests.def does not compile. */
#ifndef TARRY_PROTO_REQUESTS_H
#define TARRY_PROTO_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarry.pb-c.h"

/* Ends a switch over Request.body_case or Op.op_case that has a case for each entry of requests.def. The switch does
 * nothing for an unknown number. */
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
    CLASS_QUESTION, /* only reads. A follower and a broker in inspection mode (tarryd --inspect) answer such a request,
                       too. Request.at_least applies to it */
    CLASS_CHANGE,   /* changes producers, tasks or queues */
    CLASS_SESSION,  /* concerns a consumer's session */
    CLASS_LOG,      /* copies the log and the index */
    CLASS_PAIR,     /* concerns the nodes of a pair */
};

enum request_answerer {
    BY_NOBODY,  /* an unknown request */
    BY_CORE,    /* the core thread answers, and gets the request in a struct core_event */
    BY_LANES,   /* the door answers (broker/net/door.h), by the functions of shell/threads/lanes.h */
    BY_AUDITOR, /* the auditor answers from the log (shell/jobs/auditor.h) */
    BY_BACKUP,  /* shell/jobs/backup.h */
    BY_LEADER,  /* the leader answers its follower (shell/pair/node.h) */
    BY_NODE,    /* the node answers about itself in every role (shell/door/stats.h) */
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
    NAMES_NOTHING,   /* an unknown operation */
    NAMES_NEW_TASK,  /* `queue` and `key` of a task that it may create */
    NAMES_TASK,      /* `task`: a Ref to a live task or a dead letter */
    NAMES_DEAD_TASK, /* `task`: a Ref to a dead letter; if the field `all` is set, a Ref to a queue with dead letters */
    NAMES_PAST_TASKS, /* `task`: a Ref to tasks that have ended */
    NAMES_LEASE,      /* fields `id` and `token`: a task's id and the lease's fencing token */
    NAMES_QUEUE,      /* `queue` */
    NAMES_DEFINITION, /* fields `space` and `name` of a definition */
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

/* Returns the queue that the reference names; NULL: the reference names a task by id, or is missing. */
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

/* Returns the queue that the operation names; NULL: the operation names a task by id, or no queue. */
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

/* Returns the task id that the operation names; 0: the operation names a task by queue and key, or no task. */
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
