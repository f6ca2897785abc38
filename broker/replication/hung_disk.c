/* hung_disk.c: see hung_disk.h. */
#include "hung_disk.h"

void hung_disk_look(struct hung_disk *disk, uint64_t since_ns, uint64_t now_ns) {
    uint64_t most_ns = HUNG_DISK_LOOK_COUNTS_MS * PAIR_NS_PER_MS;
    waited_look(&disk->write, since_ns, now_ns, most_ns);
}

uint64_t hung_disk_ms(const struct hung_disk *disk) {
    return disk->write.ns / PAIR_NS_PER_MS;
}

uint64_t hung_disk_timer(const struct hung_disk *disk) {
    return disk->write.since_ns == 0 ? UINT64_MAX : disk->write.looked_ns + HUNG_DISK_LOOK_MS * PAIR_NS_PER_MS;
}
