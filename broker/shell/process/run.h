/* run.h: this run of the process: when it began and how, and whether it ends. Written by the main thread before the
 * others start, but for what is atomic. */
#ifndef TARRY_SHELL_RUN_H
#define TARRY_SHELL_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "system_user.h"
#include "tarry.pb-c.h"

struct run {
    char url[CONFIG_TEXT_SIZE];     /* the first that a network reaches */
    uint64_t started_ms;            /* logical */
    _Atomic uint32_t epoch;         /* of a pair: the pair thread's, and it grows when this node comes to lead */
    Tarry__EpochPut__Before before; /* how the log ended before this start; of a pair: before this node led */
    char started_by[SYSTEM_USER_SIZE];
    char stopped_by[SYSTEM_USER_SIZE]; /* set before the inbox says stop */
    _Atomic bool stopping;
};

#endif
