/* queue_policy.h: constants and functions made from policy.def, about the fields of a queue's policy. */
#ifndef TARRY_PROTO_QUEUE_POLICY_H
#define TARRY_PROTO_QUEUE_POLICY_H

#include <stdint.h>

#include "tarry.pb-c.h"
#include "tarry_limits.h"

/* Places of the fields, which are their bits in enum tarry_policy_field. */
enum policy_place {
#define POLICY_NUMBER(field, ...) POLICY_AT_##field,
#define POLICY_TEXT(field, ...) POLICY_AT_##field,
#include "policy.def"
    POLICY_FIELDS,
    POLICY_NUMBERS = POLICY_AT_push, /* number of numeric fields, which come first */
    POLICY_FIELDS_OWN = 1 /* number of further fields, which only the broker itself may set: `lease_before_due` */
};

/* Returns the policy of new queues of a tarryd that was started without options about policies. */
static inline Tarry__Policy policy_default(void) {
    Tarry__Policy policy = TARRY__POLICY__INIT;
#define POLICY_NUMBER(field, word, option, kind, least, most, range, preset, value, help) policy.field = (preset);
#define POLICY_TEXT(field, value, help)
#include "policy.def"
    return policy;
}

#endif
