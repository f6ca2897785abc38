/* alloc.c: see alloc.h. */
#include "alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void tool_out_of_memory(void) {
    static const char sentence[] = "tarry: out of memory\n";
    fputs(sentence, stderr);
    exit(1);
}

void *tool_alloc(size_t size) {
    void *memory = calloc(1, size > 0 ? size : 1);
    if (memory == NULL) tool_out_of_memory();
    return memory;
}

char *tool_strdup(const char *string) {
    char *copy = strdup(string);
    if (copy == NULL) tool_out_of_memory();
    return copy;
}
