/* storage_codes.h: storage's result codes besides negative errnos and LMDB's codes; in one file, so all are distinct.
 */
#ifndef TARRY_STORAGE_STORAGE_CODES_H
#define TARRY_STORAGE_STORAGE_CODES_H

enum log_error {
    LOG_DAMAGED = -10001, /* the log is damaged, and not by a torn write */
    LOG_VERSION = -10002, /* unknown format version */
    LOG_FOREIGN = -10003, /* segment of another cluster */
    LOG_RETIRED = -10004, /* the position is below log_start, so its frame was deleted */
    LOG_END = -10005,     /* no frame has been written at this position yet */
    LOG_PINNED = -10006,  /* log_retire: a copy needs the segment; try later */
    LOG_WITHIN = -10007,  /* the position is inside a frame */
    LOG_UNFIT = -10008,   /* log_copy: these frames do not continue this log */
    LOG_KEPT = -10009,    /* log_cut: frames after the position must stay */
};

enum index_error {
    INDEX_DAMAGED = -20001, /* the index is damaged: a checksum is wrong, or a record is invalid */
    INDEX_VERSION = -20002,
    INDEX_FOREIGN = -20003, /* index of another cluster */
};

#endif
