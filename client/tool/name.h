/* name.h: who asks, as the broker's log, `tarry history` and `tarry audit` tell it. */
#ifndef TARRY_TOOL_NAME_H
#define TARRY_TOOL_NAME_H

#include "tool.h"

#define AS_SIZE_MAX 64 /* of --as; so that user and host are never cut */

/* "user@host tarry/PID", behind "AS: " if that is given. It is what this process says of itself, and proves nothing:
 * the address that it came from is recorded beside it. EXIT_FINE, or EXIT_USAGE after a sentence. */
int name_say(const char *as, char out_name[TOOL_NAME_SIZE]);

#endif
