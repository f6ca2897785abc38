/* hung_disk.c: see hung_disk.h. */
#include "hung_disk.h"

#include "seeded_bug.h"

void hung_disk_look(struct hung_disk *disk, uint64_t since_ns, uint64_t now_ns) {
    if (since_ns != disk->since_ns) *disk = (struct hung_disk){.since_ns = since_ns, .looked_ns = since_ns};
    if (since_ns == 0 || now_ns <= disk->looked_ns) return;
    uint64_t gone_ns = now_ns - disk->looked_ns, most_ns = HUNG_DISK_LOOK_COUNTS_MS * PAIR_NS_PER_MS;
    disk->waited_ns += gone_ns < most_ns || SEEDED_BUG(pause_taken_for_hung_disk) ? gone_ns : most_ns;
    disk->looked_ns = now_ns;
}

uint64_t hung_disk_ms(const struct hung_disk *disk) {
    return disk->waited_ns / PAIR_NS_PER_MS;
}

uint64_t hung_disk_timer(const struct hung_disk *disk) {
    return disk->since_ns == 0 ? UINT64_MAX : disk->looked_ns + HUNG_DISK_LOOK_MS * PAIR_NS_PER_MS;
}
