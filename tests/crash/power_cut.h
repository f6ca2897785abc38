/* power_cut.h: simulates a power failure: unsynced writes of files are lost.
 *
 * Before a write the replaced bytes are saved; a sync of the file drops them; a cut restores them, sector by sector,
 * some or all. A write through O_DSYNC is durable at once. Not modelled: names and sizes of files (model_disk.h does
 * that), and writes through a memory map. For fault_shim.c, whose own calls it must not use. */
#ifndef TARRY_TESTS_POWER_CUT_H
#define TARRY_TESTS_POWER_CUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* power_lock and power_unlock enclose a write or sync and the call that records it. A power cut then comes before or
 * after both. */
void power_lock(void);
void power_unlock(void);
/* Notes that `size` bytes from `offset` will be written; offset -1: at the descriptor's current position. */
void power_note_write(int descriptor, off_t offset, size_t size);
/* Notes that the descriptor's file was synced. */
void power_note_sync(int descriptor);
/* Restores unsynced bytes; `seed` decides which writes survive. Takes the lock and keeps it. */
void power_cut(uint64_t seed);

#endif
