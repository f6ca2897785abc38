/* policy.h: the policy of a queue on the command line. */
#ifndef TARRY_TOOL_POLICY_H
#define TARRY_TOOL_POLICY_H

#include "args.h"
#include "tarry.h"
#include "tarry.pb-c.h"
#include "text.h"

/* Parses one name=value. The name is a field's name on the command line, or its name in proto/policy.def.
 * `fields` collects the bits of enum tarry_policy_field. Only the broker checks ranges. `text` must outlive `policy`.
 * 0, or EXIT_USAGE after an error message. */
int policy_field(const struct args *args, const char *text, struct tarry_policy *policy, uint32_t *fields);
/* Writes the limits of deliveries, such as "600/min (burst 20), 5 in flight"; nothing if there are none. */
void policy_limits(struct text *out, const Tarry__Policy *policy);
/* Writes what happens to overdue tasks after an outage, such as "expire if later than 1h". Writes nothing if such tasks
 * are delivered normally. */
void policy_overdue(struct text *out, const Tarry__Policy *policy);
/* Converts the value of an option for a push URL or a filter: returns an empty text for `none`, otherwise the value. */
const char *policy_push(const char *value);
/* Prints the fields, for the help of a command. */
void policy_print_help(void);

#endif
