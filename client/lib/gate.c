/* gate.c: where the threads of blocking calls wait. One message answers all operations of a commit. One system call
 * (futex) then wakes all threads that wait for it, and none of them needs a lock first. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

void gate_wait(struct gate *gate, unsigned turn) {
    atomic_fetch_add(&gate->waiters, 1);
    syscall(SYS_futex, &gate->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    atomic_fetch_sub(&gate->waiters, 1);
}

/* The turn is changed first, so a thread that starts to wait later sees the change. */
void gate_open(struct gate *gate) {
    atomic_fetch_add(&gate->turn, 1);
    if (atomic_load(&gate->waiters) > 0) syscall(SYS_futex, &gate->turn, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
