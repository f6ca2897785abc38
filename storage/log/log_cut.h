/* log_cut.h: a tail that the leader never had is put aside and cut off (R8).
 *
 *   1. all that was appended is synced                        4. the note of how far it is durable is lowered
 *   2. the tail is copied to the quarantine, durably          5. the segments behind go, the newest first, each synced
 *   3. what stays of the segment that is cut is copied to     6. that file takes the place of the segment; synced
 *      cut.tmp, with zeros behind, and synced
 *
 * Killed between any two of them, the log is whole and ends somewhere between the position and where it ended; whoever
 * opens it compares again, and cuts again. Nothing is changed before 4, so a full disk costs nothing.
 * Who calls it answers for it that nobody has read beyond the position and goes on there: a cursor behind it finds
 * nothing, and then something else. */
#ifndef TARRY_STORAGE_LOG_CUT_H
#define TARRY_STORAGE_LOG_CUT_H

#include "log.h"
#include "quarantine.h"

/* Cuts the log at `position`, where a frame ends. `keep_min`: what must stay, for the index has absorbed it, or it was
 * signed, or is known to be committed. `why`: a sentence for people, of less than QUARANTINE_WHY_SIZE bytes. Writer
 * only. 0: log_end, log_written and log_durable are `position`, and `*out` is what was put aside (base == end: nothing
 * lay behind). Nothing was changed: LOG_KEPT (below keep_min), LOG_END (behind the end), LOG_WITHIN, LOG_RETIRED,
 * LOG_PINNED (somebody copies the log; later), -ENOSPC and other errors of steps 1 to 4. Afterwards the log is
 * poisoned, as after any failed write; opened again it is whole. */
int log_cut(struct log *log, uint64_t position, uint64_t keep_min, const struct quarantine *quarantine, const char *why,
            struct quarantine_tail *out);

#endif
