/* say.c: see say.h. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void tool_say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    flockfile(stderr); /* locks standard error, because watch.c prints from its own thread */
    /* On a terminal, first clear a progress bar. */
    fputs(isatty(STDERR_FILENO) == 1 ? "\r\033[Ktarry: " : "tarry: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    funlockfile(stderr);
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
