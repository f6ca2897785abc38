/* say.h: error messages on standard error, and the exit status of the tool. */
#ifndef TARRY_TOOL_SAY_H
#define TARRY_TOOL_SAY_H

#include "args.h"

enum exit_status {
    EXIT_FINE = 0,
    EXIT_REFUSED = 1, /* the broker refused the request, or (tarry verify) the directory is damaged */
    EXIT_USAGE = 2,
    EXIT_SILENCE = 3 /* no broker, or no primary, answered within --timeout */
};

/* Prints "tarry: …" and a line feed on standard error. */
void tool_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a usage error and a hint at --help; returns EXIT_USAGE. */
int tool_usage(const struct args *args, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
