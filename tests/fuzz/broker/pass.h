/* pass.h: lets time pass at once in all brokers of a role (tests/e2e/pass_shim.c adds it to their clocks). */
#ifndef TARRY_TESTS_FUZZ_BROKER_PASS_H
#define TARRY_TESTS_FUZZ_BROKER_PASS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "random.h"

struct pass {
    _Atomic int64_t *passed_ns; /* mapped from the file that the brokers' shim reads; NULL: no jumps */
    uint64_t next_ms;           /* real time of the next jump */
    uint64_t jumps;             /* number of jumps so far */
};

/* Maps the file of the shim. Ends the process if it cannot. */
void pass_open(struct pass *pass, const char *path);
/* Lets `seconds` pass. Does nothing without a file. */
void pass_seconds(struct pass *pass, uint32_t seconds);
/* Returns how many seconds to let pass now, and chooses the time of the next jump; 0: none now. */
uint32_t pass_choose(struct pass *pass, struct random *random, uint64_t now_ms);

#endif
