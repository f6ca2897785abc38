/* power_cut.h: what a power failure would leave of files that were written and not synced.
 *
 * Before a write what it replaces is remembered; a sync of the file forgets it; a cut puts it back, sector by sector,
 * some of them or all. What was written through O_DSYNC is durable at once. Not modelled: names and sizes of files
 * (model_disk.h does that), and pages written through a map. For fault_shim.c, whose own calls it must not make. */
#ifndef TARRY_TESTS_POWER_CUT_H
#define TARRY_TESTS_POWER_CUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Between these two a write or a sync and its note are one step: a cut falls before or after it. */
void power_lock(void);
void power_unlock(void);
/* `size` bytes from `offset` are about to be written; offset -1: where the descriptor stands. */
void power_note_write(int descriptor, off_t offset, size_t size);
/* The file of this descriptor was synced. */
void power_note_sync(int descriptor);
/* Puts back what was not synced; `seed` decides what is kept all the same. Takes the lock, and keeps it. */
void power_cut(uint64_t seed);

#endif
