/* refuse.c: writes an error message and returns 1. */
#include <stdarg.h>
#include <stdio.h>

#include "coordinator_backend.h"

int coordinator_refuse(char message[COORDINATOR_MESSAGE_SIZE], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, COORDINATOR_MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    return 1;
}
