/* run.h: data about this run of the process: when and how it began, and whether it is stopping. The main thread writes
 * it before the other threads start, except for the atomic members. */
#ifndef TARRY_SHELL_RUN_H
#define TARRY_SHELL_RUN_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"
#include "tarry.pb-c.h"
#include "tarry_limits.h"

/* The system user that caused a start or a stop, for the log: "operator@host". */

#define SYSTEM_USER_SIZE (CLIENT_NAME_SIZE_MAX + 1)

/* Writes the user's name. If it is not in /etc/passwd or does not fit, writes "uid 1000@host". */
void system_user_name(uid_t user, char out[SYSTEM_USER_SIZE]);
/* Writes the name of the user that sent the signal. If the kernel sent it (Ctrl-C at a terminal), writes the name of
 * this process's user. */
void system_user_of_signal(const siginfo_t *signal, char out[SYSTEM_USER_SIZE]);

struct run {
    char url[CONFIG_TEXT_SIZE]; /* the first URL of this broker that is reachable from the network */
    uint64_t started_ms;        /* logical Unix time of the start */
    /* Epoch of this run. In a pair, the pair's thread writes it; it grows when this node starts to lead. */
    _Atomic uint32_t epoch;
    Tarry__EpochPut__Before before; /* how the log ended before this start; in a pair, before this node began to lead */
    char started_by[SYSTEM_USER_SIZE];
    char stopped_by[SYSTEM_USER_SIZE]; /* user that stopped the broker; set before inbox_stop */
    _Atomic bool stopping;
};

#endif
