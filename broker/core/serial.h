/* serial.h: serial names (SERIAL-1): of the tasks of a queue with one serial name, at most one is leased.
 *
 * A name is in memory while a task with the name is in memory. A name lists its ready tasks in the queue's order:
 * priority, due time, id. While no task of the name is leased, the first ready task is *offered*: it is in its line's
 * ready heap, and a consumer gets it as any other ready task. All other ready tasks are *parked* in their line
 * (PLACE_PARKED). So a delivery never searches the waiting tasks of a busy name. When the leased task ends, offering
 * the next one costs one step in a heap (near.c). */
#ifndef TARRY_CORE_SERIAL_H
#define TARRY_CORE_SERIAL_H

#include "state.h"

struct serial {
    struct serial *by_name_next; /* next name in the same bucket of core->by_serial */
    uint64_t hash;               /* hash of queue and name (row_key_hash) */
    struct task *holder;  /* the task of this name that is leased, or that the present draft leases; NULL: none */
    struct task *offered; /* the task in its line's ready heap; NULL: none */
    struct ready waiting; /* all ready tasks of the name in memory, the offered one included */
    uint32_t queue;       /* number */
    uint32_t task_count;  /* number of tasks in memory with this name; the last one frees the name */
    uint8_t size;
    char name[];
};

/* The part of a task with a serial name that other tasks do not have. It follows the task's key. */
struct serial_part {
    struct ready_node node; /* node in serial->waiting while the task is ready */
    struct task *task;
};

/* Bytes requested from the region for a name of this size; 0: no name. */
static inline size_t serial_bytes(size_t name_size) {
    return name_size ? sizeof(struct serial) + name_size : 0;
}
static inline struct serial *serial_of(const struct task *task) {
    assert(task->row.serial_size);
    return (struct serial *)(task->row.serial - offsetof(struct serial, name));
}

/* Returns the name in memory; NULL: no task in memory has it. */
struct serial *serial_find(struct core *core, const struct row *row);
/* Adds a task to the row's name, which is created if it is missing. Returns NULL if memory is full. */
struct serial *serial_join(struct core *core, const struct row *row);
/* Removes a task from the name; frees the name with its last task. */
void serial_leave(struct core *core, struct serial *serial);

/* Adds the task to the ready tasks of its name, or removes it. */
void serial_push(struct task *task);
void serial_remove(struct task *task);
/* Returns the task that must be offered now; NULL: none, because a task of the name is leased or none is ready. */
struct task *serial_first(const struct serial *serial);
/* Returns true if the task may be leased: no other task of its name is. */
static inline bool serial_is_free(const struct task *task) {
    return !task->row.serial_size || !serial_of(task)->holder || serial_of(task)->holder == task;
}

/* Asserts the invariants of the name of this task; O(ready tasks of the name). For core_check. */
void serial_check(const struct task *task);

#endif
