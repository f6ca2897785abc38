/* fuzz_wheel.c: the input is a history of the timing wheel: arm, cancel, advance. No timer expires early (TIME-1),
 * late or out of order, and every invariant is always true. */
#include <assert.h>
#include <string.h>

#include "bytes.h"
#include "fuzz.h"
#include "wheel.h"

#define TIMERS 32
#define STEP_SIZE 10u /* number of bytes of a step: opcode, timer, number */

static struct wheel wheel;
static struct wheel_timer timers[TIMERS];

static void none_is_due(uint64_t now_ms) {
    for (int i = 0; i < TIMERS; i++) assert(!wheel_is_armed(&timers[i]) || timers[i].due_ms > now_ms);
}

static void drain(uint64_t now_ms) {
    uint64_t due_ms = 0, tie = 0;
    for (struct wheel_timer *timer; (timer = wheel_pop(&wheel, now_ms)) != NULL;
         due_ms = timer->due_ms, tie = timer->tie) {
        assert(timer->due_ms <= now_ms);
        assert(timer->due_ms > due_ms || (timer->due_ms == due_ms && timer->tie >= tie));
    }
    none_is_due(now_ms);
    assert(wheel_next(&wheel) > now_ms || wheel_next(&wheel) == WHEEL_NEVER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 8) return 0;
    uint64_t now_ms = get_u64(data);
    if (now_ms == WHEEL_NEVER) now_ms--;
    memset(timers, 0, sizeof(timers));
    wheel_init(&wheel, now_ms);
    for (size_t at = 8; at + STEP_SIZE <= size; at += STEP_SIZE) {
        struct wheel_timer *timer = &timers[data[at + 1] % TIMERS];
        uint64_t number = get_u64(data + at + 2);
        switch (data[at] % 4) {
        case 0: /* arm a timer, with a delay of any magnitude */
            number >>= data[at] / 4;
            if (number > UINT64_MAX - 1 - now_ms) number = UINT64_MAX - 1 - now_ms;
            number += now_ms;
            wheel_cancel(&wheel, timer);
            wheel_arm(&wheel, timer, number, data[at + 1]);
            break;
        case 1: /* advance the time, by any amount */
            wheel_cancel(&wheel, timer);
            wheel_arm(&wheel, timer, number == WHEEL_NEVER ? number - 1 : number, data[at + 1]);
            break;
        case 2:
            wheel_cancel(&wheel, timer);
            break;
        default:
            if (data[at] / 4 == 0 && wheel_next(&wheel) > now_ms) number = wheel_next(&wheel) - now_ms;
            number >>= data[at] / 4;
            now_ms = number > UINT64_MAX - 1 - now_ms ? UINT64_MAX - 1 : now_ms + number;
            drain(now_ms);
            break;
        }
        if (at % 16 == 0) assert(wheel_check(&wheel)); /* not after each step, because the check visits all slots */
    }
    assert(wheel_check(&wheel));
    drain(UINT64_MAX - 1);
    assert(wheel.armed == 0);
    return 0;
}
