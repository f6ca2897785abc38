/* gate.c: where the threads of blocking calls wait. What travels in one commit is answered in one message: all that
 * wait for it are woken by one system call, by nothing but a futex, so that none of them has to take a lock first. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

void gate_wait(struct gate *gate, unsigned turn) {
    atomic_fetch_add(&gate->waiters, 1);
    syscall(SYS_futex, &gate->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    atomic_fetch_sub(&gate->waiters, 1);
}

/* The turn is first: a thread that comes to wait later sees that it has changed. */
void gate_open(struct gate *gate) {
    atomic_fetch_add(&gate->turn, 1);
    if (atomic_load(&gate->waiters) > 0) syscall(SYS_futex, &gate->turn, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
