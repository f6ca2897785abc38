/* difference.h: what a dry run did differently from the record. */
#ifndef TARRY_TOOL_DIFFERENCE_H
#define TARRY_TOOL_DIFFERENCE_H

#include "dry.h"
#include "text.h"

void difference_print(const struct dry *dry, bool json, struct text *out);

#endif
