/* index_faults.h: makes the n-th call of LMDB or of the allocator fail, or what it reads come out damaged.
 *
 * By the linker's --wrap: the index is linked as it is. Only what this program links is seen, so LMDB's and protobuf's
 * own allocations never fail here. One fault at a time; without one, every call goes through. */
#ifndef TARRY_TESTS_INDEX_FAULTS_H
#define TARRY_TESTS_INDEX_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault {
    FAULT_NONE,
    FAULT_LMDB,     /* any call that can fail answers FAULT_LMDB_ERROR */
    FAULT_MEMORY,   /* an allocation returns NULL */
    FAULT_MAP_FULL, /* a put finds the map full */
    FAULT_NO_SPACE, /* a commit finds the disk full */
    FAULT_FLIPPED,  /* a bit of a value that was read is wrong */
    FAULT_SHORT,    /* a value that was read is shorter than its seal */
    FAULT_LONGER,   /* … has a byte too many under a right seal: what only a bug or another version writes */
    FAULT_EMPTY,    /* … is nothing under a right seal */
    FAULT_KEY,      /* a cursor finds a key that is a byte too long */
    FAULT_GARBAGE,  /* a value that was read is 0xff throughout under a right seal */
    FAULTS
};

#define FAULT_LMDB_ERROR (-30795) /* MDB_PANIC */

extern const char *const fault_names[FAULTS];

/* The n-th matching call from now on, n ≥ 1, meets the fault; the others do not. */
void fault_arm(enum fault fault, uint64_t n);
/* Everything works again. True: the fault was met. */
bool fault_disarm(void);

#endif
