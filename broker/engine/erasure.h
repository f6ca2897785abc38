/* erasure.h: when redactions that the index has absorbed are carried out, and in which order.
 *
 *   begin ─► tails ─► log ─► archive ─► report ─► end          what the index knows of
 *   begin ─► tails ─────────► archive ─► forget ─► end         what a snapshot passed over (pending_erasures.h)
 *
 * Tails that were put aside come first: once the log has forgotten a content, no file tells where else it lies. It is
 * reported last, when nothing but zeros is left anywhere: the report is what ends it, so a kill at any moment costs
 * nothing but doing it again. Nothing begins while a segment is archived or on its way out, or a copy is made: what is
 * being copied would escape, or be copied in halves.
 *
 * A slice of redactions at a time, which the caller knows. It executes an effect and reports its result. Times are of a
 * clock that only grows. One thread at a time. */
#ifndef TARRY_ENGINE_ERASURE_H
#define TARRY_ENGINE_ERASURE_H

#include <stdbool.h>
#include <stdint.h>

enum erasure_effect {
    ERASURE_REST,    /* nothing to do: look again after erasure_wait_ns */
    ERASURE_BEGIN,   /* keep archive and copiers away until END */
    ERASURE_TAILS,   /* erase in the tails that were put aside */
    ERASURE_LOG,     /* … in the log */
    ERASURE_ARCHIVE, /* … in the archive */
    ERASURE_REPORT,  /* the index forgets the redactions, and destroys the keys of what it holds of them */
    ERASURE_FORGET,  /* likewise the list of what a snapshot passed over, if that was the last of it */
    ERASURE_END,     /* archive and copiers may go on */
};

enum erasure_result {
    ERASURE_DONE,
    ERASURE_BUSY,    /* of BEGIN: the archive or a copier is at work */
    ERASURE_FAILED,  /* of TAILS, ARCHIVE: they cannot be read or written just now; it is tried again */
    ERASURE_NO_ROOM, /* of REPORT: the index has none */
};

struct erasure {
    enum erasure_effect effect; /* under way; REST: none */
    bool missed_redactions;     /* the slice is of what a snapshot passed over */
    uint64_t again_ns;          /* nothing begins before */
    uint64_t wait_ns;           /* after this END */
};

struct erasure_facts {
    bool is_retiring;
    bool in_index;          /* the index knows of redactions that were not reported */
    bool missed_redactions; /* there are some that a snapshot passed over */
    uint64_t now_ns;
};

/* How long it may rest; 0: something is to be erased. UINT64_MAX: nothing is, or not before the segment has gone. */
uint64_t erasure_wait_ns(const struct erasure *erasure, const struct erasure_facts *facts);
/* While none is under way: BEGIN or REST. */
enum erasure_effect erasure_look(struct erasure *erasure, const struct erasure_facts *facts);
/* The effect under way has come to that; → the next one. */
enum erasure_effect erasure_step(struct erasure *erasure, enum erasure_result result, uint64_t now_ns);

#endif
