/* pair_times.h: how long the two nodes of a pair wait for each other, as an operator has set it. Both halves go by it.
 */
#ifndef TARRY_REPLICATION_PAIR_TIMES_H
#define TARRY_REPLICATION_PAIR_TIMES_H

#include <stdint.h>

#define PAIR_TIME_NEVER UINT64_MAX
#define PAIR_NS_PER_MS UINT64_C(1000000)

struct pair_times {
    uint64_t failover_after_ms; /* a leader that says nothing for so long is silent */
    uint64_t solo_after_ms;     /* … a follower. PAIR_TIME_NEVER: it is waited for, however long that takes */
    uint64_t keep_ms;           /* what a follower lacks stays in its leader's log for so long after it was heard */
};

#endif
