/* errors.h: names and sentences for the codes of tarry.proto. Static strings. */
#ifndef TARRY_PROTO_ERRORS_H
#define TARRY_PROTO_ERRORS_H

#include "tarry.pb-c.h"

/* Returns the lower-case name ("busy") for logs and JSON; "unknown" for an unknown code. */
const char *code_name(Tarry__Code code);
/* Returns one sentence that explains the code. */
const char *code_sentence(Tarry__Code code);
/* Returns the outcome's name as the tool prints it: "scheduled", "exists", "in_flight", … */
const char *outcome_name(Tarry__Outcome outcome);

#endif
