/* library.h: what libwebsockets has to say. It has one log a process, whoever uses it. */
#ifndef TARRY_NET_LIBRARY_H
#define TARRY_NET_LIBRARY_H

/* Whom its errors are told to, without their end of line; NULL: nobody. Any thread calls `says`, which may be called
 * until the process ends. Before that, and without this, nothing is told. */
void library_tell(void (*says)(void *argument, const char *text), void *argument);
/* Before its first use. Any thread, any number of times. */
void library_begin(void);

#endif
