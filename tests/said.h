/* said.h: keeps the messages of a tool command, for a test that runs the command in its own process. Include it once
 * per program, instead of linking output.c and tool.c. */
#ifndef TARRY_TESTS_SAID_H
#define TARRY_TESTS_SAID_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "output.h"
#include "tool.h"

static char said[8192];     /* the last message */
static struct text printed; /* the last output */

void tool_say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(said, sizeof(said), format, list);
    va_end(list);
}

int tool_usage(const struct args *args, const char *format, ...) {
    (void)args, (void)format;
    abort();
}

int output_flush(struct text *text, int status) {
    printed.size = 0;
    text_add(&printed, text->data, text->size);
    text->size = 0;
    return status;
}

uint64_t steady_ms(void) {
    return 1;
}

#endif
