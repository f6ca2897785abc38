/* library.h: what libwebsockets has to say, and whether it had the memory. It has one log and one allocator a process,
 * for all users. */
#ifndef TARRY_NET_LIBRARY_H
#define TARRY_NET_LIBRARY_H

#include <stdbool.h>

/* The function that is told its errors, without their end of line; NULL: none. Any thread calls `says`, which may be
 * called until the process ends. Before that, and without this, nothing is told. */
void library_tell(void (*says)(void *argument, const char *text), void *argument);
/* Before its first use. Any thread, any number of times. */
void library_begin(void);
/* Whether an allocation of its has failed on this thread since this was last asked. What it makes then must not be
 * used: lws_create_vhost of 4.1.6 gives back one with a NULL in it, which the first connection follows. Nor can it be
 * destroyed: that follows it, too. */
bool library_lacked(void);

#endif
