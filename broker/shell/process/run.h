/* run.h: data about this run of the process: when and how it began, and whether it is stopping. The main thread writes
 * it before the other threads start, except for the atomic members. */
#ifndef TARRY_SHELL_RUN_H
#define TARRY_SHELL_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "system_user.h"
#include "tarry.pb-c.h"

struct run {
    char url[CONFIG_TEXT_SIZE]; /* the first URL of this broker that is reachable from the network */
    uint64_t started_ms;        /* logical Unix time of the start */
    _Atomic uint32_t
        epoch; /* epoch of this run. In a pair, the pair's thread writes it; it grows when this node starts to lead */
    Tarry__EpochPut__Before before; /* how the log ended before this start; in a pair, before this node began to lead */
    char started_by[SYSTEM_USER_SIZE];
    char stopped_by[SYSTEM_USER_SIZE]; /* user that stopped the broker; set before inbox_stop */
    _Atomic bool stopping;
};

#endif
