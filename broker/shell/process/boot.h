/* boot.h: identifies this boot of the machine, and remembers what steady time was at its beginning (TIME-2, F-32).
 *
 * Within a boot, steady time follows BOOTTIME, also across restarts of the broker and whatever happens to the wall
 * clock. So each start writes a note, DIR/boot, of one line: the boot's id, the time namespace, and steady time at
 * BOOTTIME zero. That value is the same for all runs of one boot.
 *
 * The note need not be synced: a crash of the machine ends the boot, and the note is useful only within it. A note that
 * is missing, damaged or of another boot is ignored; then the wall clocks tell how much time has passed. */
#ifndef TARRY_SHELL_BOOT_H
#define TARRY_SHELL_BOOT_H

#include <stdint.h>

/* Returns steady time at BOOTTIME zero, as an earlier run of this boot noted it; 0: no such note. */
uint64_t boot_recall(const char *directory);
/* Writes the note. Returns 0 or a positive errno. After an error there is no note, because an old note may be ahead of
 * the true time (TIME-1). `steady_ns` 0 means unknown. If the machine gives no boot id, writes nothing. */
int boot_note(const char *directory, uint64_t steady_ns);

#endif
