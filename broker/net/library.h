/* library.h: error messages and failed allocations of libwebsockets. The library has one log and one allocator per
 * process. */
#ifndef TARRY_NET_LIBRARY_H
#define TARRY_NET_LIBRARY_H

#include <stdbool.h>

/* Sets the function that gets the library's errors, without a newline; NULL: no function. Any thread may call `says`,
 * until the process ends. Without this call errors are dropped. */
void library_tell(void (*says)(void *argument, const char *text), void *argument);
/* Prepares the library. Call it before the first use; any thread, any number of times. */
void library_begin(void);
/* Returns whether an allocation of the library has failed on this thread since the last call. An object made meanwhile
 * must be neither used nor destroyed: lws_create_vhost of 4.1.6 may return one with a NULL pointer, which it follows
 * later. */
bool library_lacked(void);

#endif
