/* boot.h: which boot of the machine this is, and what steady time was when it began (TIME-2, F-32).
 *
 * Within a boot, steady time follows BOOTTIME across restarts of the broker too, whatever was done to the wall clock
 * meanwhile. So each start leaves a note, DIR/boot, of one line: the boot's id, the time namespace, and steady time at
 * BOOTTIME zero, which is the same for all runs of one boot.
 *
 * The note need not be synced: a crash of the machine ends the boot, and with it the note's meaning. A note that is
 * missing, damaged or of another boot says nothing; then the wall clocks tell how much time has passed. */
#ifndef TARRY_SHELL_BOOT_H
#define TARRY_SHELL_BOOT_H

#include <stdint.h>

/* Steady time at BOOTTIME zero, as a former run of this very boot left it; 0: none did. */
uint64_t boot_recall(const char *directory);
/* 0 or a positive errno; then there is no note any more, for an old one may be ahead of the truth (TIME-1). 0 for
 * `steady_ns` says that it is not known. Nothing is noted where the machine does not tell its boots apart. */
int boot_note(const char *directory, uint64_t steady_ns);

#endif
