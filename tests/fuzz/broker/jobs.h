/* jobs.h: makes commands of beanstalkd's protocol, right and wrong. */
#ifndef TARRY_TESTS_FUZZ_BROKER_JOBS_H
#define TARRY_TESTS_FUZZ_BROKER_JOBS_H

#include "out.h"
#include "random.h"
#include "seen.h"

/* Appends a command with its body. Returns true if the command may wait without a limit. */
bool jobs_command(struct random *random, const struct seen *seen, struct out *out);

#endif
