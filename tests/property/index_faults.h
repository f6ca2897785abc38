/* index_faults.h: makes the n-th call of LMDB or of the allocator fail, or return damaged data.
 *
 * It uses the linker's --wrap, so the index is linked unchanged. Only calls from this program are wrapped:
 * allocations inside LMDB and protobuf-c never fail here. One fault at a time; without a fault every call passes. */
#ifndef TARRY_TESTS_INDEX_FAULTS_H
#define TARRY_TESTS_INDEX_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault {
    FAULT_NONE,
    FAULT_LMDB,     /* a call of LMDB that can fail returns FAULT_LMDB_ERROR */
    FAULT_MEMORY,   /* an allocation returns NULL */
    FAULT_MAP_FULL, /* a put returns that the map is full */
    FAULT_NO_SPACE, /* a commit returns that the disk is full */
    FAULT_FLIPPED,  /* a value that was read has a flipped bit */
    FAULT_SHORT,    /* a value that was read has fewer bytes than a seal (checksum) */
    /* A value has one byte too many and a correct seal; only a defect or another version writes such a value. */
    FAULT_LONGER,
    FAULT_EMPTY,   /* a value is empty under a correct seal */
    FAULT_KEY,     /* a cursor returns a key that is one byte too long */
    FAULT_GARBAGE, /* a value that was read has only 0xff bytes under a correct seal */
    FAULTS
};

#define FAULT_LMDB_ERROR (-30795) /* MDB_PANIC */

extern const char *const fault_names[FAULTS];

/* Arms the fault for the n-th matching call from now on, n ≥ 1. */
void fault_arm(enum fault fault, uint64_t n);
/* Disarms the fault. Returns true if it occurred. */
bool fault_disarm(void);

#endif
