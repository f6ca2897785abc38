/* policy.h: a queue's policy on the command line. */
#ifndef TARRY_TOOL_POLICY_H
#define TARRY_TOOL_POLICY_H

#include "args.h"
#include "tarry.h"

/* Takes one name=value: a field by the name that people give it, or by its name in tarry_limits.h QUEUE_POLICY.
 * `fields` has the bits of enum tarry_policy_field that were taken so far. What only the broker can judge (ranges) is
 * left to it. `text` must stay as long as `policy`. 0, or EXIT_USAGE after a sentence. */
int policy_field(const struct args *args, const char *text, struct tarry_policy *policy, uint32_t *fields);
/* Where a queue is pushed to, as it is given: `none` is nowhere. */
const char *policy_push(const char *value);

#endif
