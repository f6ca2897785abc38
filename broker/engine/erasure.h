/* erasure.h: time and order of the erasure of redacted contents, after the index has absorbed the redactions.
 *
 * Redactions that the index contains have these steps: begin, tails, log, archive, report, end. After a snapshot, the
 * new log and index contain no erased contents, but this node's older archive and tails may (pending_erasures.h). The
 * steps for these redactions are: begin, tails, archive, forget, end.
 *
 * The *tails* are ends that were cut off the log and kept (storage/log/quarantine.h). They come first, because a
 * content in a tail can be found only while the log still has the content. The report comes last, when every copy is
 * zeroed. The report ends the erasure, so after a kill the erasure is simply repeated.
 *
 * No erasure begins while a segment is archived or retired, or a copy is made. Otherwise the copy could keep a content,
 * or half of one. Erasure handles one slice of redactions at a time; the caller knows the slice.
 *
 * The caller executes an effect and reports its result. Times are of a monotonic clock. One thread at a time. */
#ifndef TARRY_ENGINE_ERASURE_H
#define TARRY_ENGINE_ERASURE_H

#include <stdbool.h>
#include <stdint.h>

enum erasure_effect {
    ERASURE_REST,    /* nothing to do: check again after erasure_wait_ns */
    ERASURE_BEGIN,   /* lock out archive and copiers until END */
    ERASURE_TAILS,   /* erase the contents in the tails that were cut off the log and kept (storage/log/quarantine.h) */
    ERASURE_LOG,     /* erase in the log */
    ERASURE_ARCHIVE, /* erase in the archive */
    ERASURE_REPORT,  /* remove the redactions from the index, and destroy the keys of its copies of the contents */
    ERASURE_FORGET,  /* remove the list of redactions that a snapshot skipped: this was its last slice */
    ERASURE_END,     /* let archive and copiers continue */
};

enum erasure_result {
    ERASURE_DONE,
    ERASURE_BUSY,   /* result of BEGIN: the archive or a copier is working */
    ERASURE_FAILED, /* result of TAILS or ARCHIVE: a file cannot be read or written now; the erasure is retried later */
    ERASURE_NO_ROOM, /* result of REPORT: the index has no room */
};

struct erasure {
    enum erasure_effect effect; /* effect that the caller must execute; REST: none */
    bool missed_redactions;     /* the slice contains redactions that a snapshot skipped */
    uint64_t again_ns;          /* earliest time of the next effect BEGIN */
    uint64_t wait_ns;           /* time in ns from ERASURE_END to the next ERASURE_BEGIN */
};

struct erasure_facts {
    bool is_retiring;
    bool in_index;          /* the index knows redactions that were not reported */
    bool missed_redactions; /* a snapshot skipped some redactions */
    uint64_t now_ns;
};

/* Returns the time in ns until an erasure is needed; 0: now. Returns UINT64_MAX if nothing must be erased, or while a
 * segment is being retired. */
uint64_t erasure_wait_ns(const struct erasure *erasure, const struct erasure_facts *facts);
/* Returns BEGIN or REST; call it while no erasure is active. */
enum erasure_effect erasure_look(struct erasure *erasure, const struct erasure_facts *facts);
/* Takes the result of the current effect and returns the next effect. */
enum erasure_effect erasure_step(struct erasure *erasure, enum erasure_result result, uint64_t now_ns);

#endif
