/* storage_codes.h: what storage answers beyond negative errnos and LMDB's own codes; here, so that no two are alike. */
#ifndef TARRY_STORAGE_STORAGE_CODES_H
#define TARRY_STORAGE_STORAGE_CODES_H

enum log_error {
    LOG_DAMAGED = -10001, /* damage that a torn write cannot explain */
    LOG_VERSION = -10002, /* another format version */
    LOG_FOREIGN = -10003, /* another cluster's segment */
    LOG_RETIRED = -10004, /* read below log_start */
    LOG_END = -10005,     /* cursor: no more frames (yet) */
    LOG_PINNED = -10006,  /* log_retire: somebody needs the segment, later */
    LOG_WITHIN = -10007,  /* the position lies within a frame */
    LOG_UNFIT = -10008,   /* log_copy: these frames do not continue this log */
    LOG_KEPT = -10009,    /* log_cut: what lies behind the position must stay */
};

enum index_error {
    INDEX_DAMAGED = -20001, /* a checksum is wrong, or a record makes no sense */
    INDEX_VERSION = -20002,
    INDEX_FOREIGN = -20003, /* another cluster */
};

#endif
