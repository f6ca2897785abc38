/* pair_times.h: how long the two nodes of a pair wait for each other: the operator's options, used by leader_half and
 * follower_half. */
#ifndef TARRY_REPLICATION_PAIR_TIMES_H
#define TARRY_REPLICATION_PAIR_TIMES_H

#include <stdint.h>

#define PAIR_TIME_NEVER UINT64_MAX
#define PAIR_NS_PER_MS UINT64_C(1000000)

struct pair_times {
    uint64_t failover_after_ms; /* a leader counts as silent after this time without an answer */
    uint64_t solo_after_ms; /* a follower counts as silent after this time; PAIR_TIME_NEVER: the leader waits without a
                               limit */
    uint64_t keep_ms; /* time after the follower's last question for which the leader keeps the log that the follower
                         lacks */
};

#endif
