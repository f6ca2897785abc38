/* alloc.h: malloc and strdup that never return NULL: without memory the process ends with an error message and
 * status 1. */
#ifndef TARRY_TOOL_ALLOC_H
#define TARRY_TOOL_ALLOC_H

#include <stddef.h>

_Noreturn void tool_out_of_memory(void);
/* Zeroed memory. */
void *tool_alloc(size_t size) __attribute__((returns_nonnull));
char *tool_strdup(const char *string) __attribute__((returns_nonnull));

#endif
