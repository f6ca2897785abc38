/* silence.c: see silence.h. */
#include "silence.h"

void silence_begin(struct silence *silence, uint64_t now_ns, uint64_t wait_ns) {
    silence->wait_ns = wait_ns;
    silence->until_ns = now_ns + wait_ns;
    silence->probe_ns = now_ns + wait_ns / 2;
    silence->probes = 0;
}

uint64_t silence_probe_wait_ns(const struct silence *silence) {
    return silence->wait_ns / SILENCE_PROBE_PART;
}

bool silence_probes(struct silence *silence, uint64_t now_ns) {
    if (silence->probes == SILENCE_PROBES || now_ns < silence->probe_ns) return false;
    uint64_t answered_ns = now_ns + silence_probe_wait_ns(silence);
    silence->probes++;
    silence->probe_ns = silence->probes < SILENCE_PROBES ? answered_ns : UINT64_MAX;
    if (silence->until_ns < answered_ns) silence->until_ns = answered_ns;
    return true;
}

uint64_t silence_plan(struct silence *silence, uint64_t now_ns, uint64_t until_ns) {
    uint64_t look_ns = now_ns + silence->wait_ns / SILENCE_LOOKS;
    if (until_ns < look_ns) look_ns = until_ns;
    silence->look_ns = look_ns > now_ns ? look_ns : now_ns;
    return silence->look_ns;
}

bool silence_overslept(struct silence *silence, uint64_t now_ns) {
    uint64_t late_ns = silence->wait_ns / SILENCE_LATE;
    if (silence->look_ns == 0 || now_ns <= silence->look_ns + late_ns) return false;
    silence->look_ns = now_ns;
    silence_begin(silence, now_ns, silence->wait_ns);
    return true;
}
