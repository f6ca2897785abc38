/* neighbours.h: is a new data directory where another one was meant? A restore to the wrong place, a unit that names
 * another directory, a typing error: each would start an empty broker beside the data, and nobody would notice. */
#ifndef TARRY_SHELL_NEIGHBOURS_H
#define TARRY_SHELL_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `path` is a data directory: it has an identity that can be read, and is no unfinished copy. */
bool neighbours_is_data(const char *path);
/* The directory that `path` lies in, by its name alone: `path` need not be there. */
void neighbours_parent(const char *path, char *out, size_t size);
/* Tells the log (event=founded_beside) of a data directory that lies beside `path`, which has just been founded. Looks
 * at the first NEIGHBOURS_MAX names there, and at none where everybody may write (/tmp): those are other people's. */
#define NEIGHBOURS_MAX 1000
void neighbours_tell(const char *path);

#endif
