/* say.c: sentences for people, on standard error (tool.h). */
#include <stdarg.h>
#include <stdio.h>

#include "tool.h"

void tool_say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("tarry: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

int tool_usage(const struct args *args, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "tarry %s: ", args->command->name);
    vfprintf(stderr, format, list);
    fprintf(stderr, "; see 'tarry %s --help'\n", args->command->name);
    va_end(list);
    return EXIT_USAGE;
}
