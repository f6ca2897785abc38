/* errors.h: names and sentences of the codes in tarry.proto. */
#ifndef TARRY_PROTO_ERRORS_H
#define TARRY_PROTO_ERRORS_H

#include "tarry.pb-c.h"

/* Lower-case name ("busy"), for logs and JSON; "code 99" never: an unknown code is "unknown". */
const char *code_name(Tarry__Code code);
/* A sentence for people. */
const char *code_sentence(Tarry__Code code);
/* What the tool prints: "scheduled", "exists", "in_flight", … */
const char *outcome_name(Tarry__Outcome outcome);

#endif
