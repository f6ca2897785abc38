/* compare.h: tarry verify DIR --against DIR2: do two data directories tell the same history? */
#ifndef TARRY_TOOL_COMPARE_H
#define TARRY_TOOL_COMPARE_H

#include "tool.h"

/* Reads both from the first position that both have. Returns the exit status: 0 if what both have is the same. */
int compare_directories(struct tool *tool, const char *directory, const char *archive, const char *against);

#endif
